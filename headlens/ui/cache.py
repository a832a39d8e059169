"""Everything that Streamlit keeps for all sessions, in one place: opened models, encoded data, jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from headlens.ui.jobs import Job, Jobs

if TYPE_CHECKING:
    from headlens.attention import Patterns
    from headlens.data.dataset import DataSet
    from headlens.data.encode import EncodedData
    from headlens.evaluate import Evaluation
    from headlens.lens import Lens
    from headlens.live import LiveEvaluator
    from headlens.store import Store

KEPT_MODELS = 2
"""Opened models kept in memory; the least recently used one goes first."""


@st.cache_resource(max_entries=KEPT_MODELS, show_spinner=False)
def open_lens(name: str) -> Lens:
    """The model of that name, opened once for all sessions; safe to use from many threads at once."""
    from headlens.lens import open_model

    return open_model(name)


@st.cache_resource(show_spinner=False)
def jobs() -> Jobs:
    """All background work of this server."""
    return Jobs()


@st.cache_resource(show_spinner=False)
def store() -> Store:
    """The results on disk."""
    from headlens.store import Store

    return Store()


@st.cache_resource(max_entries=32, show_spinner=False)
def encoded(name: str, _lens: Lens, _data: DataSet, fingerprint: str, data_key: str, max_tokens: int) -> EncodedData:  # noqa: ARG001
    """Tokenised examples; ``data_key`` says which ones."""
    from headlens.data.encode import encode

    return encode(_lens, _data, max_tokens=max_tokens)


@st.cache_resource(max_entries=KEPT_MODELS, show_spinner=False)
def live_evaluator(name: str, _lens: Lens, fingerprint: str) -> LiveEvaluator:  # noqa: ARG001
    """The live set of a model with its prefixes computed, so that a toggle costs only what lies behind the switch."""
    from headlens.data.select import live_set
    from headlens.live import LiveEvaluator

    return LiveEvaluator(_lens, live_set(_lens))


@st.cache_resource(max_entries=1024, show_spinner=False)
def live_result(name: str, _lens: Lens, fingerprint: str, off: str, ablation: str) -> Evaluation:
    """What ``off`` (HEADS) does to the live set; computed once for each set of heads, whatever else is drawn."""
    from headlens.metrics import metric_for
    from headlens.switches import as_ablation

    live = live_evaluator(name, _lens, fingerprint)
    return live.evaluate(_lens.topology.parse(off), metric=metric_for(None, _lens.task), ablation=as_ablation(ablation))


def live_job(lens: Lens, viewer: str) -> Job:
    """The job that prepares the live set of a model (one forward pass over it), once."""

    def work(_: Job) -> None:
        live_evaluator(lens.name, lens, lens.fingerprint)

    key = ("live set", lens.name, lens.fingerprint)
    return jobs().start(key, f"{lens.title} with all heads on", work, viewer)


@st.cache_resource(max_entries=16, show_spinner=False)
def example_patterns(  # the names without underscore are the key
    fingerprint: str,  # noqa: ARG001
    data_hash: str,  # noqa: ARG001
    index: int,
    tokens: int,
    _lens: Lens,
    _data: EncodedData,
) -> Patterns:
    """Attention of every head on one example, cut to ``tokens`` on each side, as float16 to keep many of them."""
    from dataclasses import replace

    from headlens.attention import patterns

    found = patterns(_lens, _data.batch([index]).inputs)
    small = {site: array[..., :tokens, :tokens].astype("float16") for site, array in found.pattern.items()}
    return replace(found, pattern=small)
