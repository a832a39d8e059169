"""The attention view in a Streamlit page."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import streamlit as st
from streamlit.components.v2 import component as register_component

from headlens.errors import DataError
from headlens.ui.components.attention_view.payload import Picture, Scale, View, build_payload, split_label

if TYPE_CHECKING:
    import numpy as np
    from streamlit.components.v2.types import ComponentRenderer

    from headlens.tokens import TokenLabel

_logger = logging.getLogger(__name__)
_FOLDER = Path(__file__).parent
# Parts of one script, in order; only the last one exports. The colours are those of the head grid.
_SCRIPTS = (
    "../head_grid/colours.js",
    "weights.js",
    "elements.js",
    "map.js",
    "map_labels.js",
    "lines.js",
    "picture.js",
    "thumbnails.js",
    "attention_view.js",
)


@dataclass(frozen=True)
class AttentionState:
    """What the user has chosen in the view: the head's label and whether the first token is hidden."""

    head: str
    hide_first: bool


@functools.cache
def _component() -> ComponentRenderer:
    """The component, registered once a process from the files beside this one."""
    script = "\n".join((_FOLDER / name).read_text(encoding="utf-8") for name in _SCRIPTS)
    style = (_FOLDER / "attention_view.css").read_text(encoding="utf-8")
    return register_component("headlens_attention_view", html='<div class="hl-root"></div>', css=style, js=script)


def parse_head_event(value: Any, layers: Sequence[int]) -> tuple[str, int] | None:
    """Label and sequence number of the browser's ``head`` message, or None if it is not one of ours."""
    if not isinstance(value, dict):
        return None
    label, seq = value.get("label"), value.get("seq")
    if not isinstance(label, str) or not isinstance(seq, int) or isinstance(seq, bool) or seq < 0:
        return None
    try:
        _, layer, _ = split_label(label)
    except DataError:
        return None
    return (label, seq) if layer in layers else None


def attention_view(
    *,
    key: str,
    patterns: np.ndarray,
    query_tokens: Sequence[TokenLabel | str],
    key_tokens: Sequence[TokenLabel | str],
    labels: Sequence[str],
    summary: str,
    view: View = "map",
    roles: Sequence[str] | None = None,
    selected: str | None = None,
    layers: Sequence[int] = (),
    scale: Scale = "sqrt",
    causal: bool = False,
    query_start: int = 0,
    key_start: int = 0,
    note: str = "",
    picture: Picture | None = None,
    hide_first: bool = False,
    on_head: Callable[[str], None] | None = None,
    on_hide_first: Callable[[bool], None] | None = None,
) -> AttentionState:
    """Draw where the heads of one layer look: one of them large, all of them as thumbnails.

    Stepping between the given heads is answered in the browser at once. A step to another layer is only reported:
    the page then passes that layer's patterns with ``selected``. Hiding the first token blanks its column and lets
    colours and lines span what is left; no weight is renormalised, and tooltips keep telling the model's own weights.

    Args:
        key: Identity of the view on the page; its data may change without it being drawn anew.
        patterns: Post-softmax weights [query, key] or [head, query, key], in 0..1.
        query_tokens: Labels [query]; strings are taken as they are.
        key_tokens: Labels [key].
        labels: Head labels [head], ``L3H7`` or ``cross.L3H7``, all of one layer.
        summary: The figure's accessible name: one plain sentence with the main numbers.
        view: ``map`` (token x token), ``lines`` (two token columns) or ``picture`` (patches over a picture).
        roles: A few words on each head [head], or none.
        selected: Label of the large head; the first one if it is not among ``labels``. With ``on_head`` the page owns
            it; without, the view keeps the user's choice by itself.
        layers: Numbers of all layers that can be stepped to.
        scale: How a weight becomes a colour: its square root, its share of the row's largest, or as it is.
        causal: Whether a query cannot see later positions; those cells are left empty.
        query_start: Position of the first query in the whole text, for a window.
        key_start: Position of the first key.
        note: Text shown above the figure, for instance that only a window is shown.
        picture: For ``picture``; see ``picture_from_pixels``.
        hide_first: Whether the first token is hidden at first.
        on_head: Called with the new head's label before the next run.
        on_hide_first: Called with the new choice before the next run.

    Returns:
        The head and the choice to hide the first token.

    Raises:
        DataError: If patterns, tokens, labels or picture do not fit together.
    """
    ack_key = f"{key}_ack"
    if on_head is None:
        selected = st.session_state.get(f"{key}_head", selected)
    payload = build_payload(
        patterns=patterns,
        query_tokens=query_tokens,
        key_tokens=key_tokens,
        labels=labels,
        summary=summary,
        view=view,
        roles=roles,
        selected=selected,
        layers=layers,
        scale=scale,
        causal=causal,
        query_start=query_start,
        key_start=key_start,
        note=note,
        picture=picture,
        hide_first=hide_first,
        ack=st.session_state.get(ack_key, 0),
    )

    def sent(name: str) -> Any:
        return (st.session_state.get(key) or {}).get(name)

    def head_changed() -> None:
        event = parse_head_event(sent("head"), payload["layers"])
        if event is None:
            _logger.warning("attention view %s: a head message of the wrong form was ignored", key)
            return
        label, st.session_state[ack_key] = event
        if on_head is None:
            st.session_state[f"{key}_head"] = label
        else:
            on_head(label)

    def hide_first_changed() -> None:
        if on_hide_first is not None:
            on_hide_first(sent("hide_first") is True)

    result = _component()(key=key, data=payload, on_head_change=head_changed, on_hide_first_change=hide_first_changed)
    hidden = result.get("hide_first")
    return AttentionState(
        payload["heads"][payload["selected"]]["label"], hide_first if hidden is None else hidden is True
    )
