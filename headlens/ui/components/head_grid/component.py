"""The head grid in a Streamlit page."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import streamlit as st
from streamlit.components.v2 import component as register_component

from headlens.ui.components.head_grid.marks import Marks
from headlens.ui.components.head_grid.messages import GridEvent, GridView, parse_label, parse_mask, parse_sequence
from headlens.ui.components.head_grid.payload import GridData, Mode, all_labels, build_payload, switchable_labels
from headlens.ui.components.head_grid.scale import Scale

if TYPE_CHECKING:
    from streamlit.components.v2.types import ComponentRenderer

_logger = logging.getLogger(__name__)
_FOLDER = Path(__file__).parent
_SCRIPTS = ("colours.js", "cells.js", "moves.js", "gestures.js", "head_grid.js")
"""Parts of one script, in order; only the last one exports."""


@functools.cache
def _component() -> ComponentRenderer:
    """The component, registered once a process from the files beside this one."""
    script = "\n".join((_FOLDER / name).read_text(encoding="utf-8") for name in _SCRIPTS)
    style = (_FOLDER / "head_grid.css").read_text(encoding="utf-8")
    return register_component("headlens_head_grid", html='<div class="hl-root"></div>', css=style, js=script)


def head_grid(
    *,
    key: str,
    grids: Sequence[GridData],
    off: Collection[str],
    ack: int,
    scale: Scale,
    on_change: Callable[[GridEvent], None] | None = None,
    mode: Mode = "map",
    height: int | None = None,
    pinned: str | None = None,
    ranked: bool = True,
    marks: Marks | None = None,
) -> GridView:
    """Draw the switchable map of heads.

    The page owns the set of heads that are off. Each switch sends the whole set with a sequence number; store both
    from the event and give them back as ``off`` and ``ack``. The grid takes ``off`` over as soon as ``ack`` has caught
    up with the user, so a reset or preset written by the page wins, and quick clicks during a run are not undone.
    When a reset and a click cross on the wire, the later message to arrive is the one that counts.

    Args:
        key: identity of the grid on the page; its data may change without it being drawn anew.
        grids: one a site, in drawing order.
        off: labels of the heads that are off. Labels that no grid draws stay in every event's ``off``.
        ack: ``ack`` of the newest ``mask`` event, 0 at first.
        scale: how scores become colours; see :func:`robust_scale`.
        on_change: called with each event before the page's (or fragment's) next run.
        mode: ``map``, where the colours lead, or ``switch``, where on and off lead.
        height: wanted height of the tallest grid in pixels; cells shrink to fit, down to a usable size.
        pinned: head to pin. The grid follows when this value changes; otherwise the user's pin stays.
        ranked: whether tooltips tell ranks.
        marks: what heads are, as letters and colours in place of the scores' colours; the scores stay in the names.

    Returns:
        The heads that the user looks at and has pinned.

    Raises:
        ValueError: see :func:`build_payload`.
    """
    drawn, switchable = all_labels(grids), switchable_labels(grids)
    elsewhere = frozenset(off) - drawn

    def state() -> Mapping[str, Any]:
        return st.session_state.get(key) or {}

    payload = build_payload(
        grids,
        off=off,
        ack=ack,
        scale=scale,
        mode=mode,
        height=height,
        pinned=pinned,
        pin_ack=parse_sequence(state().get("pinned")),
        ranked=ranked,
        marks=marks,
    )

    def mask_changed() -> None:
        event = parse_mask(state().get("mask"), switchable)
        if event is None:
            _logger.warning("head grid %s: a switch message of the wrong form was ignored", key)
        elif on_change is not None:
            on_change(GridEvent("mask", off=event.off | elsewhere, ack=event.ack))

    def look_changed(kind: str) -> None:
        label = parse_label(state().get(kind), drawn)
        if on_change is not None:
            on_change(GridEvent("pinned" if kind == "pinned" else "active", label=label))

    result = _component()(
        key=key,
        data=payload,
        on_mask_change=mask_changed,
        on_active_change=lambda: look_changed("active"),
        on_pinned_change=lambda: look_changed("pinned"),
    )
    sent = result.get("pinned")
    return GridView(
        active=parse_label(result.get("active"), drawn),
        pinned=parse_label({"label": pinned} if sent is None else sent, drawn),
    )
