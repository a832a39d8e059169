"""Runs of the lab beside the page: one pool of processes for the whole server, cancellable, shown as it goes."""

from __future__ import annotations

import threading
import time
from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import streamlit as st

from headlens.lab.estimate import refuse_long
from headlens.lab.pool import Event, run_all
from headlens.lab.results import RunResult
from headlens.lab.specs import RunSpec
from headlens.lab.study import Study
from headlens.store import Store
from headlens.ui import background, engines
from headlens.ui.jobs import Job

SECTION = "lab"
PUBLISH_SECONDS = 0.3


@dataclass(frozen=True)
class Live:
    """What is known of a study so far.

    Attributes:
        curves: points (step, bits) of each run.
        results: of the runs that have ended.
    """

    curves: Mapping[RunSpec, tuple[tuple[int, float], ...]] = field(default_factory=dict)
    results: Mapping[RunSpec, RunResult] = field(default_factory=dict)


@st.cache_resource(show_spinner=False)
def _turn() -> threading.Lock:
    """Held by the one study that is at work: two pools on one machine would only slow each other down."""
    return threading.Lock()


@contextmanager
def _in_turn(job: Job) -> Iterator[None]:
    with job.holding(_turn()):
        yield


def key_of(study: Study) -> Hashable:
    """Says what a study computes."""
    return "lab", tuple(study.specs())


def start(study: Study, *, long: bool) -> None:
    """Starts the study, or joins it where somebody else has started it; ``long``: also if it takes hours."""
    specs = study.specs()

    def work(job: Job) -> Live:
        seen = _Seen(job)
        confirm = refuse_long(long, "tick the box that says so")
        with _in_turn(job), job.aside():  # the work is done by processes of its own
            run_all(specs, Store(), on_progress=job.progress, on_event=seen, confirm=confirm)
        return seen.live()

    background.start(SECTION, key_of(study), f"{len(specs)} runs", engines.placed(work))


class _Seen:
    """Collects what happens to the runs and publishes it now and then."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.curves: dict[RunSpec, list[tuple[int, float]]] = {}
        self.results: dict[RunSpec, RunResult] = {}
        self.published = 0.0

    def __call__(self, event: Event) -> None:
        if event.result is not None:
            self.results[event.spec] = event.result
            self.curves[event.spec] = list(event.result.curve)
        elif event.step is not None and event.bits is not None:
            self.curves.setdefault(event.spec, []).append((event.step, event.bits))
        if event.result is not None or time.monotonic() - self.published > PUBLISH_SECONDS:
            self.published = time.monotonic()
            self.job.publish(self.live())

    def live(self) -> Live:
        return Live({spec: tuple(curve) for spec, curve in self.curves.items()}, dict(self.results))


def known(job: Job | None) -> Live:
    """What a job has found so far, also when it was cancelled."""
    if job is None:
        return Live()
    found = job.result if job.status == "done" else job.partial
    return found if isinstance(found, Live) else Live()
