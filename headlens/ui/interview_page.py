"""The interview page: the question, the drill, the mock interview, progress and the cheat sheet."""

from __future__ import annotations

import streamlit as st

from headlens.errors import HeadlensError
from headlens.interview.cheatsheet import cheat_sheet
from headlens.ui import interview_drill, interview_main, interview_mock, interview_progress, state, words
from headlens.ui.interview_claims import offer
from headlens.ui.interview_kit import Kit, bank, current_log, statements
from headlens.ui.sidebar import open_late, refresh, sidebar_with_lens

_STYLE = "<style>.stMainBlockContainer h2 { font-size: 1.35rem; padding: 0.4rem 0 0; }</style>"
SECTIONS = ("The question", "Drill", "Mock interview", "Progress", "Cheat sheet")
MEASURING = ("Drill", "Mock interview")
"""Parts that ask about the model, so they wait until it is open."""


def show() -> None:
    """Draws the page. It works without a model too; then numbers are those of GPT-2 small."""
    section = state.remember("iv_section", SECTIONS[0])
    opened = sidebar_with_lens("interview", wait=section in MEASURING)
    st.html(_STYLE)
    st.title("The interview answer")
    late = st.container()
    try:
        questions = bank()
    except HeadlensError as error:
        st.error(words.plain(str(error)), icon=":material/error:")
        return
    lens, chosen = (None, None) if opened is None else (opened.lens, opened.chosen)
    kit = Kit(questions, current_log(), lens, chosen)
    state.fill("_iv_section", section)
    st.segmented_control(
        "Part of this page",
        SECTIONS,
        key="_iv_section",
        required=True,
        label_visibility="collapsed",
        on_change=lambda: st.session_state.update(hl_iv_section=st.session_state["_iv_section"]),
    )
    _draw(section, kit)
    state.show_notices()
    if opened is not None and opened.chosen is not None:
        refresh(opened.chosen)
    if opened is None and section not in MEASURING:
        with late:
            open_late()
    state.whole_page(False)


def _draw(section: str, kit: Kit) -> None:
    if section == "Drill":
        interview_drill.show(kit)
    elif section == "Mock interview":
        interview_mock.show(kit)
    elif section == "Progress":
        interview_progress.show(kit)
    elif section == "Cheat sheet":
        _cheat_sheet(kit)
    else:
        interview_main.show(kit)


def _cheat_sheet(kit: Kit) -> None:
    st.header("Cheat sheet", anchor=False)
    st.markdown("One page to print, with the numbers of your model. The file needs nothing else.")
    page = cheat_sheet(kit.bank, kit.shape)
    st.download_button(
        "Download to print",
        page,
        "attention-head-pruning.html",
        "text/html",
        key="_iv_sheet_download",
        type="primary",
        icon=":material/print:",
    )
    for box in kit.bank.main.sheet:
        st.subheader(words.plain(box.title), anchor=False)
        statements(kit.bank, box.lines)
    offer(kit, (line.claim for box in kit.bank.main.sheet for line in box.lines), "sheet")
