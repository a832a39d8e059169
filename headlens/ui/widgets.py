"""How widgets keep their values: on pages that do not draw them, and while runs of the page follow each other fast."""

from __future__ import annotations

from typing import Any

import streamlit as st


def fill(widget: str, value: Any) -> None:
    """Gives a widget its value before it is drawn; call in every run, with an ``on_change`` that updates our own key.

    Our own key is the truth and the widget follows it, so a value survives pages on which the widget is not drawn, and
    the widget keeps its identity (and the keyboard's focus) when the value changes. In runs of the whole page it is
    told each time: a browser that has not drawn one run yet when the next begins would otherwise show it empty.
    """
    if is_whole_page() or st.session_state.get(widget) != value:
        st.session_state[widget] = value


def fill_text(widget: str, value: str) -> str:
    """The same for a text field; what it returns is the field's ``value``.

    A field is not told what it shows already, since that would wipe out what somebody is typing just now.
    """
    if st.session_state.get(widget, value) == value:
        return value
    st.session_state[widget] = value
    return ""  # Streamlit wants only one of the two


def whole_page(running: bool) -> None:
    """Says that a run of the whole page begins or has ended; what runs after that are fragments."""
    st.session_state["hl_whole_page"] = running


def is_whole_page() -> bool:
    """Whether this is a run of the whole page. It must not ask for another one: see :func:`fill`."""
    return st.session_state.get("hl_whole_page", True)


def remember(key: str, default: Any) -> Any:
    """A page's own value that outlives switching pages."""
    return st.session_state.setdefault(f"hl_{key}", default)
