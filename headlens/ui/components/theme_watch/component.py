"""Figures are drawn for the light or the dark theme, and a page is not run again by itself when the theme changes."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING

import streamlit as st
from streamlit.components.v2 import component as register_component

if TYPE_CHECKING:
    from streamlit.components.v2.types import ComponentRenderer

KEY = "theme_watch"
# Parts of one script; the head grid knows how to tell dark from light.
_SCRIPTS = ("../head_grid/colours.js", "theme_watch.js")


@functools.cache
def _component() -> ComponentRenderer:
    """The component, registered once a process."""
    script = "\n".join((Path(__file__).parent / name).read_text(encoding="utf-8") for name in _SCRIPTS)
    return register_component("headlens_theme_watch", html="<i></i>", js=script)


def theme_watch() -> None:
    """Shows nothing; asks for one more run of the page whenever the browser's theme is not the one it was drawn for."""
    _component()(key=KEY, data={"drawn": st.context.theme.type or "light"}, on_changed_change=lambda: None)
