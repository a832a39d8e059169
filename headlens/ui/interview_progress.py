"""Progress: streaks, weak spots, and the log itself (where it is kept, export, import, starting afresh)."""

from __future__ import annotations

import streamlit as st

from headlens.errors import HeadlensError
from headlens.interview.progress import DiskLog, export, merge, progress_file
from headlens.interview.schema import TOPICS
from headlens.interview.stats import ENOUGH, RECENT, Summary, summary
from headlens.server import limits
from headlens.ui import interview_drill, state, words
from headlens.ui.interview_kit import IN_TAB, ON_DISK, Kit, now, place

PLACES = (ON_DISK, IN_TAB)


def show(kit: Kit) -> None:
    """Draws the section."""
    st.header("Progress", anchor=False)
    found = summary(kit.bank, kit.events(), now())
    if kit.log.damaged:
        st.warning(f"{kit.log.damaged} lines of the log could not be read and are left out.", icon=":material/info:")
    _figures(found, len(kit.bank))
    _weak(found, kit)
    _topics(found)
    _keeping(kit)


def _figures(found: Summary, questions: int) -> None:
    columns = st.columns(4)
    share = f"{found.right / found.answers:.0%} right" if found.answers else None
    columns[0].metric("Answers", found.answers, share, delta_color="off", delta_arrow="off")
    columns[1].metric(
        "Days in a row", found.streak.days, f"best {found.streak.best_days}", delta_color="off", delta_arrow="off"
    )
    columns[2].metric(
        "Right in a row", found.streak.right, f"{found.streak.today} today", delta_color="off", delta_arrow="off"
    )
    columns[3].metric("Due now", found.due, f"{found.seen} of {questions} seen", delta_color="off", delta_arrow="off")
    st.caption(
        f"{found.known} of {questions} questions are known: FSRS expects you to remember them for three weeks. A day "
        "counts with one answer."
    )


def _weak(found: Summary, kit: Kit) -> None:
    st.subheader("Weak spots", anchor=False)
    if not found.weak:
        enough = any(standing.answers >= ENOUGH for standing in found.topics)
        st.markdown(
            "No weak spot: every topic with enough answers is at 70 % or more."
            if enough
            else f"Answer at least {ENOUGH} questions of a topic to see how you stand in it."
        )
        return
    st.markdown(
        "**" + words.plain(", ".join(TOPICS[topic] for topic in found.weak)) + "**: less than 70 % right lately."
    )

    def drill() -> None:
        interview_drill.start(kit, 5, found.weak, [])
        st.session_state["hl_iv_section"] = "Drill"

    st.button("Drill my weak spots", key="_iv_weak", type="primary", on_click=drill)


def _topics(found: Summary) -> None:
    import pandas as pd

    rows = [
        {
            "Topic": TOPICS[standing.topic],
            "Seen": f"{standing.seen} of {standing.questions}",
            "Known": standing.known,
            f"Right, last {RECENT}": f"{standing.right} of {standing.answers}" if standing.answers else "",
            "95 % interval": f"{standing.low:.0%} to {standing.high:.0%}" if standing.answers else "",
        }
        for standing in found.topics
    ]
    st.subheader("By topic", anchor=False)
    st.dataframe(pd.DataFrame(rows), hide_index=True, width="stretch")
    st.caption("Interval: Wilson's, for the share you would get right of many such questions.")


def _keeping(kit: Kit) -> None:
    st.subheader("Where it is kept", anchor=False)
    state.fill("_iv_place", place())
    st.radio(
        "Keep my progress",
        PLACES if limits.current().progress else (IN_TAB,),
        key="_iv_place",
        horizontal=True,
        on_change=lambda: st.session_state.update(hl_iv_place=st.session_state["_iv_place"]),
        help="On this computer: one log for everybody who uses this server. Only in this tab: gone when it is closed.",
    )
    if place() == ON_DISK:
        st.caption(
            words.plain(f"{progress_file()}: one line an answer, only added to. Texts that you type are not kept.")
        )
    with st.container(horizontal=True):
        st.download_button("Export", export(kit.log), "interview-progress.json", "application/json", key="_iv_export")
    st.file_uploader(
        "Import an export (adds what is missing here)",
        type=["json"],
        key=f"_iv_import_{st.session_state.get('hl_iv_imports', 0)}",
        max_upload_size=20,
        on_change=_import,
        args=(kit,),
    )
    if isinstance(kit.log, DiskLog):
        _afresh(kit.log)


def _import(kit: Kit) -> None:
    number = st.session_state.get("hl_iv_imports", 0)
    uploaded = st.session_state.get(f"_iv_import_{number}")
    if uploaded is None:
        return
    st.session_state["hl_iv_imports"] = number + 1  # an uploader keeps what it was given, so the next one is new
    try:
        new, damaged = merge(kit.log, uploaded.getvalue())
    except HeadlensError as error:
        state.notice(str(error))
        return
    left = f"; {damaged} could not be read" if damaged else ""
    state.notice(f"Import: {new} new answers and events{left}.")


def _afresh(log: DiskLog) -> None:
    with st.expander("Start afresh"):
        st.markdown("The log is moved aside, not deleted; its new name is shown.")
        sure = st.checkbox("Yes, start with empty progress", key="_iv_sure")
        st.button("Start afresh", key="_iv_clear", disabled=not sure, on_click=_clear, args=(log,))


def _clear(log: DiskLog) -> None:
    try:
        kept = log.clear()
    except HeadlensError as error:
        state.notice(str(error))
        return
    st.session_state["_iv_sure"] = False
    state.notice(f"The old log is kept as {kept}." if kept is not None else "There was no progress yet.")
