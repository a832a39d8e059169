"""The mock interview: a clock, one question after the other without explanations, then the score sheet."""

from __future__ import annotations

import csv
import io

import streamlit as st

from headlens.interview.mock import (
    BANDS,
    SECONDS,
    Sheet,
    finished_runs,
    left,
    next_question,
    open_run,
    paper,
    sheet,
)
from headlens.interview.progress import Answer, MockEnd, MockStart
from headlens.interview.questions import KINDS
from headlens.interview.schema import LEVELS, TOPICS
from headlens.ui import state, words
from headlens.ui.interview_feedback import explain
from headlens.ui.interview_kit import Kit, cite_line, now, seed_of
from headlens.ui.interview_question import draw, shown, slot_of

KEY = "hl_iv_mock"
"""Id of the run that the session is in (or whose sheet it shows)."""
TICK_SECONDS = 1.0


def show(kit: Kit) -> None:
    """Draws the section."""
    st.header("Mock interview", anchor=False)
    runs = {event.id: event for event in kit.events() if isinstance(event, MockStart)}
    run = runs.get(st.session_state.get(KEY, ""))
    if run is None:
        _start(kit)
    elif open_run(kit.events(), now()) == run and next_question(run, kit.events(), kit.bank) is not None:
        _ask(run, kit)
    else:
        _finish(run, kit)
        _sheet(run, kit)


def _start(kit: Kit) -> None:
    st.markdown(
        f"**{SECONDS // 60} minutes.** It begins with the main question and follows up as an interviewer would, then "
        "moves on to other topics. There are no explanations until the end. A question is worth its level in points; "
        "what you do not reach earns nothing. From 80 % of the points on you are ready, from 60 % nearly."
    )
    going_on = open_run(kit.events(), now())
    if going_on is not None:
        st.info(f"A mock interview is going on, {clock(left(going_on, now()))} left.", icon=":material/timer:")
        st.button("Go on with it", key="_iv_mock_resume", on_click=_enter, args=(going_on.id,))
    st.button("Start the interview", key="_iv_mock_start", type="primary", on_click=_begin, args=(kit,))
    _earlier(kit)


def _enter(run: str) -> None:
    st.session_state[KEY] = run


def _begin(kit: Kit) -> None:
    events = kit.events()
    going_on = open_run(events, now())
    if going_on is not None:
        kit.keep(MockEnd(run=going_on.id, at=now()))
    questions = paper(kit.bank, seed=seed_of(f"mock {len(events)}"), measured=kit.chosen is not None)
    run = MockStart(questions=questions, seconds=SECONDS, at=now())
    kit.keep(run)
    _enter(run.id)


def _ask(run: MockStart, kit: Kit) -> None:
    name = next_question(run, kit.events(), kit.bank)
    assert name is not None
    st.fragment(run_every=TICK_SECONDS)(_clock)(run)
    place = run.questions.index(name)
    st.markdown(f"**Question {place + 1} of {len(run.questions)}**")
    mark = draw(
        kit.bank[name],
        slot_name(run, name),
        kit,
        where="mock",
        seed=seed_of(f"{run.id} {name}"),
        run=run.id,
        silent=True,
    )
    with st.container(horizontal=True):
        if mark is None:
            st.button("Skip this question", key=f"_iv_mock_skip_{place}", on_click=_skip, args=(run, name, kit))
        else:  # a prediction that was measured just now
            st.button("Next question", key="_iv_mock_next", type="primary")
        st.button("End the interview", key="_iv_mock_end", type="tertiary", on_click=_end, args=(run, kit))


def slot_name(run: MockStart, name: str) -> str:
    """The slot of one question of a run."""
    return f"mock-{run.id[:8]}-{name}"


def _clock(run: MockStart) -> None:
    """The time left; when it is over the whole page is drawn again, with the score sheet."""
    remaining = left(run, now())
    if remaining <= 0 and not state.is_whole_page():
        state.rerun()
    st.metric("Time left", clock(remaining), help="The clock goes on when you leave the page.")


def clock(seconds: float) -> str:
    """``12:05``."""
    whole = max(0, round(seconds))
    return f"{whole // 60}:{whole % 60:02d}"


def _skip(run: MockStart, name: str, kit: Kit) -> None:
    kit.keep(Answer(question=name, score=0.0, right=False, where="mock", run=run.id, at=now()))


def _end(run: MockStart, kit: Kit) -> None:
    kit.keep(MockEnd(run=run.id, at=now()))


def _finish(run: MockStart, kit: Kit) -> None:
    """Notes once that the run is over."""
    if not any(isinstance(event, MockEnd) and event.run == run.id for event in kit.events()):
        kit.keep(MockEnd(run=run.id, at=now()))


def _sheet(run: MockStart, kit: Kit) -> None:
    found = sheet(run, kit.events(), kit.bank)
    st.subheader(f"Score sheet: {found.verdict}", anchor=False)
    columns = st.columns(3)
    columns[0].metric(
        "Points",
        f"{found.earned:.1f} of {found.possible:.0f}",
        f"{found.share:.0%}",
        delta_color="off",
        delta_arrow="off",
    )
    reached = sum(row.score is not None for row in found.rows)
    columns[1].metric("Answered", f"{reached} of {len(found.rows)}")
    columns[2].metric("Time", clock(found.seconds))
    st.markdown(found.advice)
    import pandas as pd

    st.dataframe(pd.DataFrame(_rows(run, found, kit)), hide_index=True, width="stretch")
    weakest = [f"{title} ({earned:.1f} of {possible:.0f})" for title, earned, possible in found.topics[:3]]
    st.markdown(f"**Weakest topics:** {', '.join(weakest)}.")
    bands = "; ".join(f"from {share:.0%} on: {name.lower()}" for share, name, _ in BANDS)
    st.caption(f"How it is judged: {bands}. Partly right answers earn a part of their points.")
    st.download_button(
        "Download the score sheet", _csv(run, found, kit), "mock-interview.csv", "text/csv", key="_iv_mock_csv"
    )
    _explanations(run, kit)
    st.button("Back to the start", key="_iv_mock_leave", on_click=lambda: st.session_state.pop(KEY, None))


def _rows(run: MockStart, found: Sheet, kit: Kit) -> list[dict[str, str]]:
    rows = []
    for number, row in enumerate(found.rows, 1):
        question = kit.bank[row.question]
        score = "not reached" if row.score is None else f"{row.earned:.1f} of {row.points:.0f}"
        rows.append(
            {
                "No.": str(number),
                "Question": shown(question, slot_of(slot_name(run, row.question), 0), kit)[0],
                "Topic": TOPICS[question.topic],
                "Level": LEVELS[question.level],
                "Kind": KINDS[question.kind],
                "Points": score,
                "Time": "" if row.seconds is None else clock(row.seconds),
            }
        )
    return rows


def _csv(run: MockStart, found: Sheet, kit: Kit) -> str:
    out = io.StringIO()
    rows = _rows(run, found, kit)
    writer = csv.DictWriter(out, list(rows[0]) if rows else ["No."])
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def _explanations(run: MockStart, kit: Kit) -> None:
    """What was kept silent during the interview; of answers given in this tab with the options that stood there."""
    with st.expander("All questions with their explanations"):
        for name in run.questions:
            if name not in kit.bank:
                continue
            question, slot = kit.bank[name], slot_of(slot_name(run, name), 0)
            text, live = shown(question, slot, kit)
            st.markdown(f"**{words.plain(text)}**")
            if slot.mark is not None:
                explain(question, slot.seed, slot.given, slot.mark, live, kit)
            else:
                st.markdown(words.plain(question.explain))
                st.caption(f"Source: {cite_line(kit.bank, question.sources)}")


def _earlier(kit: Kit) -> None:
    runs = finished_runs(kit.events(), now())
    if not runs:
        return
    st.subheader("Earlier interviews", anchor=False)
    for run in runs[:10]:
        found = sheet(run, kit.events(), kit.bank)
        label = f"{run.at.astimezone():%d %B %Y, %H:%M}: {found.share:.0%}, {found.verdict.lower()}"
        st.button(label, key=f"_iv_mock_{run.id}", on_click=_enter, args=(run.id,), type="tertiary")
