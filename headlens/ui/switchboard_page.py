"""The switchboard: switch heads off and see at once what happens to loss, next token and text."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import streamlit as st

from headlens.charts.tokens import before_after
from headlens.errors import HeadlensError
from headlens.ui import cache, effects, presets, state, words
from headlens.ui.compute import Ask, scores_now
from headlens.ui.grid import switch_grid
from headlens.ui.heads_page import POLL_SECONDS
from headlens.ui.prompt import prompt_box, question_inputs
from headlens.ui.sidebar import Chosen, sidebar

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headlens.heads import HeadSet


def show() -> None:
    """Draws the page."""
    chosen = sidebar("switchboard")
    st.title("Switch heads off")
    if chosen is None:
        st.info("Choose a model in the sidebar to switch its heads.", icon=":material/arrow_back:")
        return
    prompt, _ = prompt_box(chosen.lens)
    busy = effects.busy()
    st.fragment(run_every=POLL_SECONDS if busy else None)(_board)(chosen, prompt, busy)
    state.publish_url()


def _board(chosen: Chosen, prompt: str, busy: bool) -> None:
    """Everything that follows the switches."""
    topology = chosen.lens.topology
    values, sem, method, signed = _scores(chosen)
    _toolbar(chosen, values)
    left, right = st.columns([3, 2], gap="large")
    with left:
        switch_grid(
            "grid_switches",
            topology,
            values,
            sem=sem,
            kind="diverging" if signed else "sequential",
            score_unit=words.unit_of(method, chosen.metric, chosen.lens.task),
            mode="switch",
        )
    off = state.off_heads(topology)
    with right:
        effects.metrics(chosen, off)
        _next(chosen, prompt, off)
    effects.held_out(chosen, off)
    effects.continuation(chosen, prompt, off)
    effects.sum_against_joint(chosen, off)
    effects.smallest_change(chosen, prompt)
    if busy != effects.busy():
        st.rerun()
    state.publish_url()


def _scores(chosen: Chosen) -> tuple[Mapping[str, np.ndarray], Mapping[str, np.ndarray] | None, str, bool]:
    """Scores for the colours and for the bottom p %: the chosen method's when they are there, else weight magnitude."""
    lens = chosen.lens
    ask = Ask(
        lens.name,
        lens.fingerprint,
        chosen.data.hash,
        chosen.method,
        chosen.metric,
        chosen.ablation,
        "head",
        signed=True,
    )
    job = cache.jobs().get(ask.key)
    if job is not None and job.status == "done":
        return job.result.values, job.result.sem, chosen.method, chosen.method in ("ablation", "gradient")
    method = chosen.method if chosen.method in ("magnitude", "magnitude-ov", "random") else "magnitude"
    scores = scores_now(lens, None, Ask(lens.name, lens.fingerprint, chosen.data.hash, method, chosen.metric))
    if method != chosen.method:
        st.caption(
            f"Coloured by weight magnitude: scores by {chosen.method} are not there yet. "
            "Open the page Heads once and they are computed there."
        )
    return scores.values, None, method, False


def _toolbar(chosen: Chosen, values: Mapping[str, np.ndarray]) -> None:
    topology = chosen.lens.topology
    with st.container(horizontal=True, vertical_alignment="bottom"):
        st.button("Undo", key="undo", disabled=not state.can("undo"), on_click=state.step, args=(True,))
        st.button("Redo", key="redo", disabled=not state.can("redo"), on_click=state.step, args=(False,))
        st.button("Invert", key="invert", on_click=_switch, args=(chosen, "invert", values))
        share = st.number_input("Share of heads, %", 0, 100, 20, 5, key="_share", width=140)
        st.button(f"Lowest {share} %", key="bottom", on_click=_switch, args=(chosen, "bottom", values))
        seed = st.number_input("Seed", 0, 9999, 0, key="_seed", width=110)
        st.button(f"Random {share} % (seed {seed})", key="random", on_click=_switch, args=(chosen, "random", values))
    with st.expander("Leave one head of a layer on"):
        names = [site.name for site in topology.sites]
        left, middle, right, last = st.columns(4, vertical_alignment="bottom")
        site = left.selectbox("Site", names, key="_abo_site") or names[0]
        layers = topology.site(site).layers
        layer = int(middle.number_input("Layer", 0, len(layers) - 1, 0, key="_abo_layer"))
        heads = layers[layer].heads
        keep = right.selectbox("Keep head", heads, key="_abo_keep")
        last.button(
            "All others off",
            key="all_but_one",
            disabled=keep is None,
            on_click=lambda: state.switch(topology, presets.all_but_one(topology, site, layer, int(keep or 0))),
        )


def _switch(chosen: Chosen, what: str, values: Mapping[str, np.ndarray]) -> None:
    topology = chosen.lens.topology
    share = st.session_state.get("_share", 20) / 100
    found: HeadSet = {
        "invert": lambda: presets.invert(topology, state.off_heads(topology)),
        "bottom": lambda: presets.bottom(topology, values, share),
        "random": lambda: presets.random_share(topology, share, int(st.session_state.get("_seed", 0))),
    }[what]()
    state.switch(topology, found)


def _next(chosen: Chosen, prompt: str, off: HeadSet) -> None:
    from headlens.next_tokens import next_tokens

    if chosen.lens.task == "embedding":
        return
    try:
        found = next_tokens(chosen.lens, question_inputs(chosen.lens, prompt), off, k=6)
    except HeadlensError as error:
        st.warning(str(error), icon=":material/info:")
        return
    labels = [choice.label.text for choice in found.choices]
    before, after = [c.before for c in found.choices], [c.after for c in found.choices]
    dark = st.context.theme.type == "dark"
    figure = before_after(labels, before, after if len(off) else None, dark=dark)
    sentence = words.next_sentence(found)
    st.plotly_chart(figure, width="stretch", key="fig_next", alt=sentence)
    st.caption(words.plain(sentence))
