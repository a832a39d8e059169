"""The drill: a handful of questions, the due ones first; wrong ones come again at the end, and later by schedule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import streamlit as st

from headlens.interview.schedule import choose, doubted
from headlens.interview.schema import LEVELS, TOPICS, Topic
from headlens.interview.stats import summary
from headlens.ui import words
from headlens.ui.interview_kit import Kit, now, seed_of
from headlens.ui.interview_question import draw, slot_of

LENGTHS = (5, 10, 20)
KEY = "hl_iv_drill"


@dataclass
class Drill:
    """A drill of one browser session.

    Attributes:
        name: unique in the session.
        queue: questions in the order in which they are asked; grows by follow-ups and by second chances.
        planned: how many were drawn.
        place: which one is asked now.
        second: places of second chances.
        follow: places of follow-ups.
    """

    name: str
    queue: list[str]
    planned: int
    place: int = 0
    second: set[int] = field(default_factory=set)
    follow: set[int] = field(default_factory=set)

    def slot(self, place: int) -> str:
        """The slot of the question at ``place``."""
        return f"{self.name}-{place}"


def show(kit: Kit) -> None:
    """Draws the section."""
    st.header("Drill", anchor=False)
    drill: Drill | None = st.session_state.get(KEY)
    if drill is None:
        _start(kit)
    elif drill.place >= len(drill.queue):
        _end(drill, kit)
    else:
        _ask(drill, kit)


def start(kit: Kit, count: int, topics: list[Topic], levels: list[int]) -> None:
    """Begins a drill with these filters (none: everything)."""
    events = kit.events()
    weak = summary(kit.bank, events, now()).weak
    seed = seed_of(f"drill {len(events)}")
    skip = [] if kit.chosen is not None else [q.id for q in kit.bank.questions.values() if q.kind == "predict"]
    queue = choose(
        kit.bank, events, count=count, now=now(), seed=seed, topics=topics, levels=levels, weak=weak, skip=skip
    )
    _new(queue)


def ask(names: Sequence[str]) -> None:
    """Begins a drill of these questions, and turns to it."""
    _new(list(names))
    st.session_state["hl_iv_section"] = "Drill"


def _new(queue: list[str]) -> None:
    number = st.session_state["hl_iv_drills"] = st.session_state.get("hl_iv_drills", 0) + 1
    st.session_state[KEY] = Drill(f"drill{number}", queue, len(queue))


def _start(kit: Kit) -> None:
    found = summary(kit.bank, kit.events(), now())
    new = len(kit.bank) - found.seen
    st.markdown(
        f"**{found.due} due, {new} new** of {len(kit.bank)} questions. What you get wrong comes again at the end of "
        "the drill, and once more before you would forget it (scheduled by FSRS)."
    )
    with st.form("_iv_drill_form", border=True):
        st.segmented_control("Questions", LENGTHS, key="_iv_count", default=LENGTHS[0], required=True)
        st.multiselect(
            "Topics (none: all)",
            list(TOPICS),
            key="_iv_topics",
            format_func=TOPICS.__getitem__,
            placeholder="All topics",
        )
        st.pills(
            "Levels (none: all)", list(LEVELS), key="_iv_levels", selection_mode="multi", format_func=LEVELS.__getitem__
        )
        st.form_submit_button("Start the drill", type="primary", key="_iv_drill_start", on_click=_begin, args=(kit,))
    if st.session_state.pop("hl_iv_no_questions", False):
        st.info("No question fits these filters; widen them.", icon=":material/filter_alt:")


def _begin(kit: Kit) -> None:
    value = st.session_state.get
    start(kit, value("_iv_count") or LENGTHS[0], list(value("_iv_topics") or []), list(value("_iv_levels") or []))
    if not st.session_state[KEY].queue:
        del st.session_state[KEY]
        st.session_state["hl_iv_no_questions"] = True


def _ask(drill: Drill, kit: Kit) -> None:
    place = drill.place
    question = kit.bank[drill.queue[place]]
    extra = ", follow-up" if place in drill.follow else (", second chance" if place in drill.second else "")
    st.markdown(f"**Question {place + 1} of {len(drill.queue)}**{extra}")
    mark = draw(question, drill.slot(place), kit, where="drill", seed=seed_of(f"{drill.name} {place} {question.id}"))
    left, right = st.columns([1, 1])
    last = place + 1 == len(drill.queue)
    with left.container(horizontal=True):
        if mark is not None:
            comes_again = not mark.right and mark.counts and place not in drill.second
            label = "See how it went" if last and not comes_again else "Next question"
            st.button(label, key="_iv_next", type="primary", on_click=_next, args=(drill, comes_again))
        else:
            st.button("Skip", key="_iv_skip", on_click=_next, args=(drill, False))
    with right.container(horizontal=True, horizontal_alignment="right"):
        st.button("End the drill", key="_iv_drill_stop", type="tertiary", on_click=_stop, args=(drill,))
    if mark is not None:
        _follow_ups(drill, kit, question.follow_ups)


def _follow_ups(drill: Drill, kit: Kit, names: tuple[str, ...]) -> None:
    """What an interviewer would ask next."""
    offered = [name for name in names if name not in drill.queue]
    if not offered:
        return
    st.markdown("**The interviewer goes on.** Take a follow-up now, or go to the next question:")
    for name in offered:
        label = words.plain(_first_line(kit.bank[name].ask))
        st.button(label, key=f"_iv_follow_{name}", on_click=_follow, args=(drill, name), icon=":material/forum:")


def _first_line(text: str) -> str:
    """The question, without the model's numbers and cut to a line."""
    short = text.replace("{model}", "your model")
    if "{" in short:
        return "One with a number from your model"
    return short if len(short) <= 110 else short[:107].rsplit(" ", 1)[0] + " …"


def _follow(drill: Drill, name: str) -> None:
    place = drill.place + 1
    drill.queue.insert(place, name)
    drill.second = {each + (each >= place) for each in drill.second}
    drill.follow = {each + (each >= place) for each in drill.follow} | {place}
    drill.place = place


def _next(drill: Drill, comes_again: bool) -> None:
    if comes_again:
        drill.second.add(len(drill.queue))
        drill.queue.append(drill.queue[drill.place])
    drill.place += 1


def _stop(drill: Drill) -> None:
    del drill.queue[drill.place + (slot_of(drill.slot(drill.place), 0).mark is not None) :]
    drill.place = len(drill.queue)


def _end(drill: Drill, kit: Kit) -> None:
    marks = [(kit.bank[name], slot_of(drill.slot(place), 0).mark) for place, name in enumerate(drill.queue)]
    first = [(q, mark) for place, (q, mark) in enumerate(marks) if place not in drill.second and mark is not None]
    counted = [mark for _, mark in first if mark.counts]
    right = sum(mark.right for mark in counted)
    st.markdown(f"**{right} of {len(counted)} right at the first go.**" if counted else "Nothing was answered.")
    lines = [f"- {'✓' if mark.right else '✗'} {words.plain(_first_line(question.ask))}" for question, mark in first]
    if lines:
        st.markdown("\n".join(lines))
    events = kit.events()
    found = summary(kit.bank, events, now())
    noted = f", {len(doubted(events))} noted as guessed" if doubted(events) else ""
    st.caption(
        f"In all {found.answers} answers{noted}; {found.due} due now; {_days(found.streak.days)} in a row. "
        "Progress keeps this."
    )
    with st.container(horizontal=True):
        st.button(
            "Another drill", key="_iv_drill_again", type="primary", on_click=lambda: st.session_state.pop(KEY, None)
        )
        st.button("See my progress", key="_iv_to_progress", on_click=_to_progress)


def _to_progress() -> None:
    st.session_state["hl_iv_section"] = "Progress"
    st.session_state.pop(KEY, None)


def _days(count: int) -> str:
    return f"{count} day{'' if count == 1 else 's'}"
