"""A page's own background work, section by section: started when it is wanted, left when something else is.

Each section of a page (held-out text, continuation, ...) shows one job at a time. Jobs that follow a switch wait a
moment, so that a burst of clicks starts one computation, and take turns, so that a click is answered meanwhile.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any

import streamlit as st

from headlens.ui import cache, state, words
from headlens.ui.jobs import Job

POLL_SECONDS = 0.5
SETTLE_SECONDS = 0.8
"""A job that follows a switch begins after so long without another switch."""


@st.cache_resource(show_spinner=False)
def _turn() -> threading.Lock:
    """Held by the one following job of this server that is at work."""
    return threading.Lock()


@contextmanager
def _my_turn(job: Job) -> Iterator[None]:
    lock, end = _turn(), time.monotonic() + SETTLE_SECONDS
    while time.monotonic() < end or not lock.acquire(timeout=0.1):
        job.progress(0, 1)  # stops here when it is not wanted any more
        time.sleep(0.05)
    try:
        yield
    finally:
        lock.release()


def job_of(section: str) -> Job | None:
    """The job that a section shows now."""
    key: Hashable | None = st.session_state.get(f"hl_job_{section}")
    return None if key is None else cache.jobs().get(key)


def is_shown(section: str, key: Hashable) -> bool:
    """Whether the section shows the job of that key."""
    return st.session_state.get(f"hl_job_{section}") == key


def start(section: str, key: Hashable, title: str, work: Callable[[Job], Any]) -> None:
    """Shows the job of ``key`` in the section, and starts it if it is not there yet."""
    leave(section, unless=key)
    st.session_state[f"hl_job_{section}"] = key
    cache.jobs().start(key, title, work, state.viewer())


def follow(section: str, key: Hashable, title: str, work: Callable[[Job], Any]) -> None:
    """Like :func:`start`, once for each key, after a moment of quiet and in turn with other followers."""
    if is_shown(section, key):
        return

    def patient(job: Job) -> Any:
        with _my_turn(job):
            return work(job)

    start(section, key, title, patient)


def leave(section: str, unless: Hashable = None) -> None:
    """The section shows nothing any more; its job stops if nobody else looks."""
    old = job_of(section)
    if old is not None and old.key != unless:
        if old.running:
            old.leave(state.viewer())
        st.session_state.pop(f"hl_job_{section}", None)


def busy(*sections: str) -> bool:
    """Whether the work of one of these sections is running."""
    return any(job is not None and job.running for job in map(job_of, sections))


def finished(section: str, key: Hashable) -> Job | None:
    """Draws progress with a way to cancel, or what went wrong; the job once it is done."""
    job = job_of(section)
    if job is None or not is_shown(section, key):
        return None
    if job.running:
        job.look(state.viewer())
        left, right = st.columns([3, 1], vertical_alignment="center")
        left.progress(job.fraction, text=f"{job.title}: {job.fraction:.0%}, {words.duration(job.seconds_left)}")
        right.button("Cancel", key=f"cancel_{section}", on_click=job.leave, args=(state.viewer(),))
    elif job.status == "failed":
        st.warning(words.plain(job.error), icon=":material/info:")
    elif job.status == "cancelled":
        st.caption("Stopped.")
        st.button("Go on", key=f"resume_{section}", on_click=leave, args=(section,))
    return job if job.status == "done" else None
