"""The page that prunes for real, step by step: curve, budget, cut, speed, recovery, download."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from headlens.ui import (
    background,
    prune_budget,
    prune_curve,
    prune_cut,
    prune_layers,
    prune_recover,
    prune_report,
    prune_skills,
    prune_speed,
    state,
)
from headlens.ui.sidebar import refresh, sidebar

if TYPE_CHECKING:
    from headlens.ui.choices import Chosen

SECTIONS = ("curve", "skill_curve", "one_head", "cut", "speed", "recover", "report")
INTRO = (
    "Switching a head off only tries out what its absence does. Here heads are chosen on one half of the text, judged "
    "on the other, and then taken out of the weights: what is left is a smaller model of its own."
)


def show() -> None:
    """Draws the page."""
    chosen = sidebar("prune")
    st.title("Prune for real")
    if chosen is None:
        st.info("Choose a model and a text in the sidebar to prune it.", icon=":material/arrow_back:")
        return
    st.caption(INTRO)
    polling = background.busy(*SECTIONS)
    st.fragment(run_every=background.poll_seconds() if polling else None)(_steps)(chosen, polling)
    refresh(chosen)
    state.whole_page(False)


def _steps(chosen: Chosen, polling: bool) -> None:
    """All steps; each shows what is there and what it waits for."""
    refresh(chosen)
    st.header("1 · What is lost as heads go", divider="gray")
    found = prune_curve.section(chosen)
    prune_skills.section(chosen, found)
    prune_layers.section(chosen)
    st.header("2 · A budget, and the heads within it", divider="gray")
    choice = prune_budget.section(chosen, found)
    st.header("3 · Take them out", divider="gray")
    made = prune_cut.section(chosen, choice)
    st.header("4 · Is it smaller and faster?", divider="gray")
    prune_speed.section(chosen, made)
    st.header("5 · Recover", divider="gray")
    prune_recover.section(chosen, made)
    st.header("6 · Take it home", divider="gray")
    prune_cut.downloads(chosen, made, found)
    prune_report.section(chosen, made, found)
    if polling != background.busy(*SECTIONS) and not state.is_whole_page():
        state.rerun()
