"""Where heads look: patterns for the user's prompt, one head large and its neighbours small."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import streamlit as st

from headlens.errors import HeadlensError
from headlens.ui import state, words
from headlens.ui.components.attention_view import attention_view
from headlens.ui.prompt import prompt_box, prompt_inputs
from headlens.ui.sidebar import Chosen, sidebar

if TYPE_CHECKING:
    from torch import Tensor

    from headlens.attention import Patterns
    from headlens.lens import Lens
    from headlens.tokens import TokenLabel

WINDOW = 256
"""Most tokens drawn at once, on each side."""
SITE_TITLES = {
    "self": "Self-attention",
    "enc": "Encoder",
    "dec": "Decoder",
    "cross": "Cross-attention (rows: target, columns: source)",
    "text": "Text tower",
    "vision": "Picture tower",
}
VIEWS = {"map": "Map", "lines": "Lines"}
SCALES = {"sqrt": "square root", "row": "share of the row's largest", "linear": "as it is"}


def show() -> None:
    """Draws the page."""
    chosen = sidebar("attention")
    st.title("Where do the heads look?")
    if chosen is None:
        st.info("Choose a model in the sidebar to see its attention.", icon=":material/arrow_back:")
        return
    prompt, target = prompt_box(chosen.lens, need_target=True)
    try:
        inputs = prompt_inputs(chosen.lens, prompt, target)
    except HeadlensError as error:
        st.error(str(error), icon=":material/error:")
        state.publish_url()
        return
    st.fragment(_look)(chosen, inputs)
    state.publish_url()


def _look(chosen: Chosen, inputs: dict[str, Tensor]) -> None:
    lens = chosen.lens
    site, view, scale = _controls(lens)
    label = _selected(lens, site)
    layer = int(label.rpartition("L")[2].split("H")[0])
    found = _patterns(lens, inputs, site, layer)
    shape = lens.topology.site(site).layers[layer]
    array = found.pattern[site][0][list(shape.heads)]
    labels = [lens.topology.label(site, layer, head) for head in shape.heads]
    queries, keys = _labels(lens, found.query_ids[site]), _labels(lens, found.key_ids[site])
    query_start, key_start, note = _window(len(queries), len(keys))
    array = array[:, query_start : query_start + WINDOW, key_start : key_start + WINDOW]
    head = labels.index(label)
    summary = _summary(label, array[head], queries[query_start:], keys[key_start:])
    attention_view(
        key=f"attention_{site}",
        patterns=array,
        query_tokens=queries[query_start : query_start + WINDOW],
        key_tokens=keys[key_start : key_start + WINDOW],
        labels=labels,
        summary=summary,
        view=view,  # type: ignore[arg-type]
        selected=label,
        layers=range(len(lens.topology.site(site).layers)),
        scale=scale,  # type: ignore[arg-type]
        causal=shape.causal,
        query_start=query_start,
        key_start=key_start,
        note=note,
        hide_first=state.remember("hide_first", False),
        on_head=lambda chosen_label: st.session_state.update(hl_attention_head=chosen_label),
        on_hide_first=lambda hidden: st.session_state.update(hl_hide_first=hidden),
    )
    st.markdown(words.plain(summary))
    if key_start == 0 and len(keys) > 1:
        first = float(np.nanmean(array[head][1:, 0])) if array.shape[1] > 1 else 0.0
        st.caption(
            f"The first token gets {first:.0%} of this head's attention on average. It is often bright because "
            "every row must sum to 1: a head with nothing to look for parks its attention there (an attention sink). "
            "Hide it to see the rest; weights are not changed by hiding."
        )


def _controls(lens: Lens) -> tuple[str, str, str]:
    left, middle, right = st.columns([2, 1, 1])
    names = [site.name for site in lens.topology.sites]
    site = names[0]
    if len(names) > 1:
        site = left.segmented_control(
            "Site", names, format_func=lambda name: SITE_TITLES[name], default=names[-1], key="_site", required=True
        )
    view = middle.segmented_control(
        "View", list(VIEWS), format_func=lambda name: VIEWS[name], default="map", key="_view", required=True
    )
    scale = right.selectbox("Colour shows the weight's", list(SCALES), format_func=lambda s: SCALES[s], key="_scale")
    return site or names[0], view or "map", scale or "sqrt"


def _selected(lens: Lens, site: str) -> str:
    """The head that is shown large; the first one that is there when the remembered one is not."""
    try:
        heads = list(lens.topology.parse(state.remember("attention_head", "")))
    except HeadlensError:
        heads = []
    if len(heads) == 1 and heads[0].site == site:
        return lens.topology.label(site, heads[0].layer, heads[0].head)
    if heads:  # another layer was stepped to
        wanted = next((head for head in heads if head.site == site), None)
        if wanted is not None:
            return lens.topology.label(site, wanted.layer, wanted.head)
    layers = lens.topology.site(site).layers
    layer = next(index for index, shape in enumerate(layers) if shape.heads)
    return lens.topology.label(site, layer, layers[layer].heads[0])


def _patterns(lens: Lens, inputs: dict[str, Tensor], site: str, layer: int) -> Patterns:
    from headlens.attention import patterns

    return patterns(lens, inputs, layers={site: (layer,)}, off=state.off_heads(lens.topology))


def _labels(lens: Lens, ids: list[int]) -> list[TokenLabel]:
    from headlens.tokens import readable_tokens

    return readable_tokens(lens.tokenizer, ids)


def _window(queries: int, keys: int) -> tuple[int, int, str]:
    """First query and key that are drawn, and what is said about it."""
    if max(queries, keys) <= WINDOW:
        return 0, 0, ""
    last = max(queries, keys) - WINDOW
    start = st.slider("First token shown", 0, last, 0, step=max(1, WINDOW // 8), key="_window")
    shown = f"tokens {start} to {start + WINDOW - 1}"
    total = max(queries, keys)
    note = f"The text has {total} tokens; shown are {shown} on each side. Weights are those of the whole text."
    return min(start, max(0, queries - WINDOW)), min(start, max(0, keys - WINDOW)), note


def _summary(label: str, pattern: np.ndarray, queries: list[Any], keys: list[Any]) -> str:
    """One sentence: where this head looks most, and how sharply."""
    strongest = np.unravel_index(
        int(np.nanargmax(np.where(np.arange(pattern.shape[1]) > 0, pattern, -1))), pattern.shape
    )
    if pattern.shape[1] < 2:
        return f"{label}: there is only one token to look at."
    query, key = int(strongest[0]), int(strongest[1])
    confidence = float(np.nanmax(pattern, axis=1).mean())
    return (
        f"{label} looks hardest (apart from the first token) from “{queries[query].text}” at “{keys[key].text}”: "
        f"{pattern[query, key]:.2f}. The largest weight of a row is {confidence:.2f} on average."
    )
