"""Where heads look: patterns for the user's prompt or picture, one head large and its neighbours small."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import streamlit as st

from headlens.errors import HeadlensError
from headlens.heads import Head
from headlens.ui import background, phrases, state, words
from headlens.ui.attention_controls import WINDOW, controls, window
from headlens.ui.attention_roles import known_roles, role_panel, roles_progress, start_roles
from headlens.ui.attention_source import Source, choose_source, writing_progress
from headlens.ui.components.attention_view import attention_view
from headlens.ui.head_roles import HeadRoles, role_words
from headlens.ui.sidebar import refresh, sidebar_with_lens
from headlens.ui.turns import now

if TYPE_CHECKING:
    from headlens.attention import Patterns
    from headlens.heads import HeadSet
    from headlens.lens import Lens
    from headlens.tokens import TokenLabel
    from headlens.ui.choices import Chosen

BESIDE = 48
"""Up to so many tokens the words stand beside the figure, else below it."""


def show() -> None:
    """Draws the page."""
    opened = sidebar_with_lens("attention")
    st.title("Where do the heads look?")
    if opened is None:
        st.info("Choose a model in the sidebar to see its attention.", icon=":material/arrow_back:")
        return
    lens, chosen = opened.lens, opened.chosen
    if chosen is not None:
        refresh(chosen)
    try:
        source = choose_source(lens, state.off_heads(lens.topology))
    except HeadlensError as error:
        st.error(words.plain(str(error)), icon=":material/error:")
        state.publish_url()
        return
    with st.container():  # a place of its own, so that the fragment below keeps its identity
        writing = background.job_of("attention_write")
        if writing is not None and writing.status != "done":
            st.fragment(run_every=_poll(writing.running))(writing_progress)(writing.running)
    for note in source.notes:
        st.caption(words.plain(note))
    st.fragment(_look)(lens, source, chosen)
    roles = start_roles(chosen)
    if roles is not None and roles.status != "done":
        st.fragment(run_every=_poll(roles.running))(roles_progress)(roles, roles.running)
    state.publish_url()
    state.whole_page(False)


def _poll(running: bool) -> float | None:
    return background.poll_seconds() if running else None


@dataclass(frozen=True)
class _Layer:
    """The patterns of one layer and what its figure is labelled with.

    Attributes:
        head: the large one.
        labels: of all heads of the layer.
        patterns: weights ``[head, query, key]`` of the whole text.
        queries, keys: token labels of the whole text.
        causal: whether a query sees no later key.
    """

    head: Head
    labels: list[str]
    patterns: np.ndarray
    queries: list[TokenLabel]
    keys: list[TokenLabel]
    causal: bool

    @property
    def place(self) -> int:
        return next(i for i, label in enumerate(self.labels) if label.endswith(self.head.label))

    @property
    def sentence(self) -> str:
        return phrases.pattern_sentence(self.labels[self.place], self.patterns[self.place], self.queries, self.keys)


def _layer(lens: Lens, source: Source, head: Head, off: HeadSet) -> _Layer:
    found = _patterns(lens, source, head, off)
    shape = lens.topology.site(head.site).layers[head.layer]
    labels = [lens.topology.label(head.site, head.layer, number) for number in shape.heads]
    queries, keys = source.labels(lens, head.site, found)
    return _Layer(head, labels, found.pattern[head.site][0][list(shape.heads)], queries, keys, shape.causal)


def _look(lens: Lens, source: Source, chosen: Chosen | None) -> None:
    """The figure and all that is said about it."""
    if st.session_state.pop("hl_new_prompt", False):
        state.rerun()  # the prompt above is not part of this fragment
    head, view, scale = controls(lens, source)
    off = state.off_heads(lens.topology)
    layer = _layer(lens, source, head, off)
    roles = None if chosen is None else known_roles(lens, chosen.data)
    # A small figure leaves room for the words beside it; a large one needs the width.
    small = max(len(layer.queries), len(layer.keys)) <= BESIDE
    left, right = st.columns([5, 3], gap="large") if small else (st.container(), st.container())
    with left:
        _figure(lens, source, layer, view, scale, roles)
    with right:
        st.markdown(words.plain(layer.sentence))
        if len(layer.keys) > 1 and head.site != "cross" and source.picture is None:
            st.caption(words.plain(phrases.sink_sentence(layer.patterns[layer.place])))
        if len(off):
            st.caption(f"{len(off)} heads are off (writing zero): these are the patterns of the switched model.")
        if roles is not None:
            role_panel(lens, roles, head)


def _figure(lens: Lens, source: Source, layer: _Layer, view: str, scale: str, roles: HeadRoles | None) -> None:
    head = layer.head
    start, note = window(len(layer.queries), len(layer.keys))
    rows, columns = slice(start[0], start[0] + WINDOW), slice(start[1], start[1] + WINDOW)
    attention_view(
        key=f"attention_{head.site}",
        patterns=layer.patterns[:, rows, columns],
        query_tokens=layer.queries[rows],
        key_tokens=layer.keys[columns],
        labels=layer.labels,
        roles=_role_names(roles, head, lens.topology.site(head.site).layers[head.layer].heads),
        summary=layer.sentence,
        view=view,  # type: ignore[arg-type]
        selected=layer.labels[layer.place],
        layers=[index for index, shape in enumerate(lens.topology.site(head.site).layers) if shape.heads],
        scale=scale,  # type: ignore[arg-type]
        causal=layer.causal,
        query_start=start[0],
        key_start=start[1],
        note=note,
        picture=source.picture.behind(len(layer.keys)) if source.picture is not None and view == "picture" else None,
        hide_first=state.remember("hide_first", False),
        on_head=lambda label: st.session_state.update(hl_attention_head=label),
        on_hide_first=lambda hidden: st.session_state.update(hl_hide_first=hidden),
    )


def _role_names(roles: HeadRoles | None, head: Head, numbers: tuple[int, ...]) -> list[str]:
    """A few words under each thumbnail, "" where a head has no role."""
    if roles is None:
        return [""] * len(numbers)
    return [role_words(roles, Head(head.site, head.layer, number)).replace(",", "") for number in numbers]


def _patterns(lens: Lens, source: Source, head: Head, off: HeadSet) -> Patterns:
    """Patterns of one layer; changing the view or the colours does not run the model again."""

    def look() -> Patterns:
        from headlens.attention import patterns

        return patterns(lens, source.inputs, layers={head.site: (head.layer,)}, off=off)

    heads = lens.topology.format(off)
    return now(("patterns", lens.fingerprint, source.key, head.site, head.layer, heads), look)
