"""Inputs whose values outlive pages that do not draw them; see :mod:`headlens.ui.widgets` for how."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import streamlit as st

from headlens.ui import state

Kind = Literal["segments", "radio", "select"]


def number(label: str, name: str, first: int, least: int, most: int, width: int) -> int:
    """A whole number."""
    key = f"_{name}"
    state.fill(key, state.remember(name, first))
    st.number_input(
        label,
        least,
        most,
        key=key,
        width=width,
        on_change=lambda: st.session_state.update({f"hl_{name}": int(st.session_state[key] or least)}),
    )
    return int(st.session_state[f"hl_{name}"])


def toggle(label: str, name: str, *, disabled: bool = False, help: str | None = None) -> bool:
    """A switch; one that is disabled is off."""
    key = f"_{name}"
    state.fill(key, state.remember(name, False))
    st.toggle(
        label,
        key=key,
        disabled=disabled,
        help=help,
        on_change=lambda: st.session_state.update({f"hl_{name}": bool(st.session_state[key])}),
    )
    return bool(st.session_state[f"hl_{name}"]) and not disabled


def choice(
    label: str,
    name: str,
    titles: Mapping[str, str],
    *,
    first: str | None = None,
    kind: Kind = "segments",
    width: int | None = None,
    show_label: bool = True,
) -> str:
    """One of several.

    Args:
        label: what is asked.
        name: where the value is kept: ``hl_NAME`` in the session's state; the widget's key is ``_NAME``.
        titles: what can be chosen, and how it is called.
        first: chosen where nothing was, or what is not offered any more; None: the first of ``titles``.
        kind: how it is drawn.
        width: in pixels; None is what Streamlit makes it.
        show_label: whether the label is seen, and not only read aloud.
    """
    key, options = f"_{name}", list(titles)
    first = options[0] if first is None else first
    current = state.remember(name, first)
    if current not in titles:
        current = first
    state.fill(key, current)

    def changed() -> None:
        st.session_state[f"hl_{name}"] = st.session_state[key] or first

    how: dict[str, Any] = {"key": key, "format_func": titles.__getitem__, "on_change": changed}
    how |= {} if show_label else {"label_visibility": "collapsed"}
    how |= {} if width is None else {"width": width}
    if kind == "segments":
        st.segmented_control(label, options, required=True, **how)
    elif kind == "radio":
        st.radio(label, options, **how)
    else:
        st.selectbox(label, options, **how)
    return current
