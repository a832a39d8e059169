"""Everything that Streamlit keeps for all sessions, in one place: opened models, encoded data, jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from headlens.ui.jobs import Jobs

if TYPE_CHECKING:
    from headlens.data.dataset import DataSet
    from headlens.data.encode import EncodedData
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
