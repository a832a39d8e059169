"""The buttons of the switchboard: undo and redo, and ready-made sets of heads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np
import streamlit as st

from headlens.ui import presets, state

if TYPE_CHECKING:
    from headlens.heads import HeadSet, Topology

HOW_TO = "The name of a layer or column switches all of it. Shift-click switches everything up to that head."


def toolbar(topology: Topology, values: Mapping[str, np.ndarray], method: str) -> None:
    """Draws the buttons.

    Args:
        topology: the model's heads.
        values: scores ``[layer, head]`` by site, for the lowest share.
        method: what they are, in words.
    """
    state.remember("share", 20)
    state.remember("seed", 0)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        _button("Undo", "undo", lambda: state.step(True), disabled=not state.can("undo"), icon=":material/undo:")
        _button("Redo", "redo", lambda: state.step(False), disabled=not state.can("redo"), icon=":material/redo:")
        _button("Invert", "invert", lambda: _set(topology, presets.invert(topology, state.off_heads(topology))))
        share = _number("Share, %", "share", 100, width=100, step=5)
        _button(
            f"Lowest {share} %",
            "bottom",
            lambda: _set(topology, presets.bottom(topology, values, share / 100)),
            help=f"Only these off: {round(share / 100 * _total(topology))} heads with the lowest scores ({method}).",
        )
        _button(
            f"Random {share} %",
            "random",
            lambda: _set(topology, presets.random_share(topology, share / 100, st.session_state["hl_seed"])),
            help="As many heads, drawn at random by the seed: what any ranking has to beat.",
        )
        _number("Seed", "seed", 9999, width=90)


def layer_tools(topology: Topology) -> None:
    """Draws the buttons that switch one layer."""
    names = [site.name for site in topology.sites]
    with st.expander("One layer"), st.container(horizontal=True, vertical_alignment="bottom"):
        site = names[0]
        if len(names) > 1:
            site = st.selectbox("Site", names, key="_layer_site", width=130) or names[0]
        layers = topology.site(site).layers
        layer = st.selectbox("Layer", range(len(layers)), key=f"_layer_number_{site}", width=100) or 0
        heads = layers[layer].heads
        keep = st.selectbox("Keep head", heads, key=f"_layer_keep_{site}_{layer}", width=110)
        whole = presets.whole_layer(topology, site, layer)
        others = presets.all_but_one(topology, site, layer, keep or 0)
        _button(
            "All others off",
            "all_but_one",
            lambda: _set(topology, (state.off_heads(topology) - whole) | others),
            disabled=keep is None,
            help="Every head of this layer off but the one that is kept; other layers stay as they are.",
        )
        _button("Whole layer off", "layer_off", lambda: _set(topology, state.off_heads(topology) | whole))
        _button("Whole layer on", "layer_on", lambda: _set(topology, state.off_heads(topology) - whole))


def _total(topology: Topology) -> int:
    return len(topology.heads())


def _set(topology: Topology, off: HeadSet) -> None:
    state.switch(topology, off)


def _button(
    label: str,
    key: str,
    on_click: Callable[[], None],
    *,
    disabled: bool = False,
    icon: str | None = None,
    help: str | None = None,
) -> None:
    st.button(label, key=key, on_click=on_click, disabled=disabled, icon=icon, help=help)


def _number(label: str, name: str, most: int, *, width: int, step: int = 1) -> int:
    key = f"_{name}"
    state.fill(key, st.session_state[f"hl_{name}"])

    def changed() -> None:
        st.session_state[f"hl_{name}"] = int(st.session_state[key] or 0)

    st.number_input(label, 0, most, step=step, key=key, width=width, on_change=changed)
    return st.session_state[f"hl_{name}"]
