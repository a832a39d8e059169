"""Inputs of the prune page that keep their values on other pages."""

from __future__ import annotations

from collections.abc import Mapping

import streamlit as st

from headlens.ui import state


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


def choice(label: str, name: str, titles: Mapping[str, str], first: str, width: int) -> str:
    """One of several; ``first`` where what was chosen before is not offered any more."""
    key = f"_{name}"
    current = state.remember(name, first)
    state.fill(key, current if current in titles else first)
    st.selectbox(
        label,
        list(titles),
        key=key,
        format_func=titles.__getitem__,
        width=width,
        on_change=lambda: st.session_state.update({f"hl_{name}": st.session_state[key]}),
    )
    return current if current in titles else first
