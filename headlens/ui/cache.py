"""Everything that is kept for all sessions, in one place: opened models, encoded data, shared results, jobs, lines."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any

import streamlit as st

from headlens.errors import HeadlensError
from headlens.server import health, limits, logs
from headlens.server.shared import Shared
from headlens.server.shelf import Shelf, needed_bytes, usual_bytes
from headlens.server.turns import Turns
from headlens.server.visits import Visits
from headlens.ui.jobs import Job, Jobs

if TYPE_CHECKING:
    from headlens.attention import Patterns
    from headlens.data.dataset import DataSet
    from headlens.data.encode import EncodedData
    from headlens.evaluate import Evaluation
    from headlens.lens import Lens
    from headlens.live import LiveEvaluator
    from headlens.store import Store

_logger = logging.getLogger(__name__)
LIVE = "live set"
_TIED: list[Callable[[], None]] = []


def tied_to_models(forget: Callable[[], None]) -> None:
    """Names what else holds models, to be forgotten when one of them leaves the shelf."""
    _TIED.append(forget)


def open_lens(name: str) -> Lens:
    """The model of that name, opened once for all sessions; safe to use from many threads at once."""
    limits.current().check_model(name)  # also where it is open already
    return shelf().get(name)


@st.cache_resource(show_spinner=False)
def shelf() -> Shelf:
    """The opened models."""

    def open_model(name: str) -> Lens:
        from headlens.lens import open_model as opened

        return opened(name)

    def noted(lens: Lens, size: int, seconds: float) -> None:
        logs.event("model_opened", model=logs.model_word(lens.name), bytes=size, seconds=seconds)

    return Shelf(
        open_model,
        lambda: limits.current().model_bytes or usual_bytes(),
        needed_bytes=needed_bytes,
        on_gone=_forget_tied,
        on_opened=noted,
    )


def _forget_tied() -> None:
    for forget in _TIED:
        forget()


@st.cache_resource(show_spinner=False)
def switches() -> Turns:
    """The line for what a click waits for."""
    allowed = limits.current()
    return Turns(allowed.at_once, allowed.waiting)


@st.cache_resource(show_spinner=False)
def work() -> Turns:
    """The line for background work."""
    allowed = limits.current()
    return Turns(allowed.at_once, allowed.waiting)


@st.cache_resource(show_spinner=False)
def visits() -> Visits:
    """Who is there."""
    return Visits()


@st.cache_resource(show_spinner=False)
def jobs() -> Jobs:
    """All background work of this server."""
    return Jobs(turns=work(), on_end=lambda _: trim_store())


@st.cache_resource(show_spinner=False)
def shared() -> Shared:
    """Small results that many ask for."""
    return Shared(limits.current().result_bytes)


@st.cache_resource(show_spinner=False)
def store() -> Store:
    """The results on disk."""
    from headlens.store import Store

    return Store()


@st.cache_resource(show_spinner=False)
def _store_size() -> health.StoreSize:
    return health.StoreSize(store())


def trim_store() -> None:
    """Keeps the store within its limit, if it has one; where that fails, the next job tries again."""
    try:
        most = limits.current().store_bytes
        if most is not None and (_store_size()() or 0) > most:
            store().prune_to(most * 9 // 10)
    except HeadlensError as error:
        _logger.warning("the store is not trimmed: %s", error)


def server_health() -> health.Health:
    """How this server is."""
    refused = switches().refused + work().refused
    return health.look(switches().standing(), work().standing(), refused, shelf().held(), shared(), _store_size()())


@st.cache_resource(show_spinner=False)
def server_started() -> bool:
    """Runs once a server: logs and the health port."""
    logs.start()
    health.serve(server_health)
    logs.event("server", profile=limits.current().profile, version=health.versions()["headlens"])
    return True


@st.cache_resource(max_entries=32, show_spinner=False)
def encoded(name: str, _lens: Lens, _data: DataSet, fingerprint: str, data_key: str, max_tokens: int) -> EncodedData:  # noqa: ARG001
    """Tokenised examples; ``data_key`` says which ones."""
    from headlens.data.encode import encode

    return encode(_lens, _data, max_tokens=max_tokens)


def live_evaluator(name: str, lens: Lens, fingerprint: str) -> LiveEvaluator:  # noqa: ARG001
    """The live set of a model with its prefixes computed, so that a toggle costs only what lies behind the switch."""

    def make() -> LiveEvaluator:
        from headlens.data.select import live_set
        from headlens.live import LiveEvaluator

        return LiveEvaluator(lens, live_set(lens))

    return shelf().companion(lens, LIVE, make)


def live_key(fingerprint: str, off: str, ablation: str) -> Hashable:
    """Names what ``off`` (HEADS) does to the live set."""
    return ("live", fingerprint, off, ablation)


def live_result(name: str, lens: Lens, fingerprint: str, off: str, ablation: str) -> Evaluation:
    """What ``off`` (HEADS) does to the live set; computed once for each set of heads, whatever else is drawn.

    For background work; pages wait for their turn, see :func:`headlens.ui.turns.now`.
    """
    key = live_key(fingerprint, off, ablation)
    return shared().compute(key, lambda: live_work(name, lens, fingerprint, off, ablation))


def live_work(name: str, lens: Lens, fingerprint: str, off: str, ablation: str) -> Evaluation:
    """Computes :func:`live_result`."""
    from headlens.metrics import metric_for
    from headlens.switches import as_ablation

    live = live_evaluator(name, lens, fingerprint)
    return live.evaluate(lens.topology.parse(off), metric=metric_for(None, lens.task), ablation=as_ablation(ablation))


def live_job(lens: Lens, viewer: str) -> Job:
    """The job that prepares the live set of a model (one forward pass over it), once."""

    def prepare(_: Job) -> None:
        live_evaluator(lens.name, lens, lens.fingerprint)

    key = (LIVE, lens.name, lens.fingerprint)
    if shelf().peek(lens, LIVE) is None:
        jobs().drop(key)  # it was made for a model that has left the shelf since
    return jobs().start(key, f"{lens.title} with all heads on", prepare, viewer, implied=True)


def example_patterns(
    fingerprint: str, data_hash: str, index: int, tokens: int, lens: Lens, data: EncodedData
) -> Patterns:
    """Attention of every head on one example, cut to ``tokens`` on each side, as float16 to keep many of them."""
    from headlens.ui.turns import now

    def look() -> Patterns:
        from dataclasses import replace

        from headlens.attention import patterns

        found = patterns(lens, data.batch([index]).inputs)
        small = {site: array[..., :tokens, :tokens].astype("float16") for site, array in found.pattern.items()}
        return replace(found, pattern=small)

    return now(("example", fingerprint, data_hash, index, tokens), look)


def _secrets() -> dict[str, Any]:
    """Root values of ``.streamlit/secrets.toml``; of these, Streamlit makes no true or false a variable."""
    try:
        return dict(st.secrets.to_dict()) if st.secrets.load_if_toml_exists() else {}
    except (OSError, ValueError):  # Streamlit has told of a broken file when it started
        return {}


limits.configure(_secrets())
