"""What is looked at on the attention page: which head, in which view, and which part of a long text."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from headlens.errors import HeadlensError
from headlens.heads import Head
from headlens.ui import inputs, state
from headlens.ui.components.attention_view.payload import split_label

if TYPE_CHECKING:
    from headlens.lens import Lens
    from headlens.ui.attention_source import Source

WINDOW = 256
"""Most tokens drawn at once, on each side."""
SITE_TITLES = {
    "self": "Self-attention",
    "enc": "Encoder",
    "dec": "Decoder",
    "cross": "Cross (rows: target, columns: source)",
    "text": "Text tower",
    "vision": "Picture tower",
}
VIEWS = {"picture": "On the picture", "map": "Map", "lines": "Lines"}
SCALES = {"sqrt": "square root", "row": "share of the row's largest", "linear": "as it is"}


def controls(lens: Lens, source: Source) -> tuple[Head, str, str]:
    """The large head, the view and the colours."""
    views = [name for name in VIEWS if name != "picture" or source.picture is not None]
    head = selected(lens)
    sites = [site.name for site in lens.topology.sites if any(layer.heads for layer in site.layers)]
    with st.container(horizontal=True, vertical_alignment="bottom"):
        if len(sites) > 1:
            state.fill("_site", head.site)
            st.segmented_control(
                "Part",
                sites,
                format_func=lambda name: SITE_TITLES[name],
                key="_site",
                required=True,
                on_change=_to_site,
            )
        first = views[0] if source.picture is not None else "map"
        view = inputs.choice("View", "view", {name: VIEWS[name] for name in views}, first=first)
        scale = inputs.choice("Colour shows the weight's", "scale", SCALES, first="sqrt")
    return head, view, scale


def _to_site() -> None:
    """Another part of the model: its first head becomes the large one."""
    site = st.session_state["_site"]
    st.session_state["hl_attention_head"] = f"{site}.L0H0"


def selected(lens: Lens) -> Head:
    """The head that is shown large: the remembered one, else its neighbour that is there, else the model's first."""
    topology, wanted = lens.topology, str(state.remember("attention_head", ""))
    try:
        _, layer, number = split_label(wanted)
        site = topology.site(split_label(wanted)[0] or topology.sites[0].name)
        heads = site.layers[layer].heads
        if heads:
            return Head(site.name, layer, min(heads, key=lambda head: abs(head - number)))
    except (HeadlensError, KeyError, IndexError):
        pass  # nothing remembered, or another model's head
    site = topology.sites[-1] if topology.sites[-1].name == "cross" else topology.sites[0]
    layer = next(index for index, shape in enumerate(site.layers) if shape.heads)
    return Head(site.name, layer, site.layers[layer].heads[0])


def window(queries: int, keys: int) -> tuple[tuple[int, int], str]:
    """First query and key that are drawn, and what is said about it."""
    total = max(queries, keys)
    if total <= WINDOW:
        return (0, 0), ""
    start = st.slider("First token shown", 0, total - WINDOW, 0, step=max(1, WINDOW // 8), key=f"_window_{total}")
    note = (
        f"The text has {total} tokens; shown are tokens {start} to {start + WINDOW - 1} on each side. "
        "Weights are those of the whole text."
    )
    return (min(start, max(0, queries - WINDOW)), min(start, max(0, keys - WINDOW))), note
