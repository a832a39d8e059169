"""A page's own background work, section by section: started when it is wanted, left when something else is.

Each section of a page (held-out text, continuation, ...) shows one job at a time. Jobs that follow a switch wait a
moment, so that a burst of clicks starts one computation; all of them take turns with those of other sessions.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import streamlit as st

from headlens.ui import cache, state, words
from headlens.ui.jobs import Job
from headlens.ui.turns import waiting_line

POLL_SECONDS = 0.5
SETTLE_SECONDS = 0.8
"""A job that follows a switch begins after so long without another switch."""


def poll_seconds(seconds: float = POLL_SECONDS) -> float:
    """Pause between two looks at running work: longer where many sessions share this server."""
    cache.visits().seen(state.viewer())
    return cache.visits().pause(seconds)


def too_often(name: str, interval: float | None = None) -> bool:
    """Whether a fragment polls twice as often as it should by now; ``interval``: how often it does, at its start."""
    key = f"hl_interval_{name}"
    if interval is not None:
        st.session_state[key] = interval
        return False
    return poll_seconds() > 2 * st.session_state.get(key, POLL_SECONDS)


def job_of(section: str) -> Job | None:
    """The job that a section shows now."""
    key: Hashable | None = st.session_state.get(f"hl_job_{section}")
    return None if key is None else cache.jobs().get(key)


def is_shown(section: str, key: Hashable) -> bool:
    """Whether the section shows the job of that key."""
    return st.session_state.get(f"hl_job_{section}") == key


def start(section: str, key: Hashable, title: str, work: Callable[[Job], Any], settle: float = 0.0) -> None:
    """Shows the job of ``key`` in the section, and starts it if it is not there yet, after ``settle`` seconds."""
    leave(section, unless=key)
    st.session_state[f"hl_job_{section}"] = key
    cache.jobs().start(key, title, work, state.viewer(), settle=settle)


def follow(section: str, key: Hashable, title: str, work: Callable[[Job], Any]) -> None:
    """Like :func:`start`, once for each key, after a moment of quiet."""
    if not is_shown(section, key):
        start(section, key, title, work, settle=SETTLE_SECONDS)


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


def line(job: Job) -> str:
    """Where a running job stands: its place in the line, or how far it is and how long it takes still."""
    if job.place:
        return f"{job.title}: waits for its turn. {waiting_line(job.place, job.wait_seconds)}"
    return f"{job.title}: {job.fraction:.0%}, {words.duration(job.seconds_left)}"


def left_behind(job: Job, name: str) -> bool:
    """Where the session has cancelled what others still wait for: says so, and offers to join them again."""
    if not (job.running and job.has_left(state.viewer())):
        return False
    st.caption("Stopped for you. Others still wait for it, so it goes on.")
    st.button("Wait for it too", key=f"rejoin_{name}", on_click=job.rejoin, args=(state.viewer(),))
    return True


def finished(section: str, key: Hashable) -> Job | None:
    """Draws progress with a way to cancel, or what went wrong; the job once it is done."""
    job = job_of(section)
    if job is None or not is_shown(section, key):
        return None
    if left_behind(job, section):
        return None
    if job.running:
        job.look(state.viewer())
        left, right = st.columns([3, 1], vertical_alignment="center")
        left.progress(job.fraction, text=line(job))
        right.button("Cancel", key=f"cancel_{section}", on_click=job.leave, args=(state.viewer(),))
    elif job.status == "failed":
        st.warning(words.plain(job.error), icon=":material/info:")
        if job.refused:
            st.button("Try again", key=f"again_{section}", on_click=leave, args=(section,))
    elif job.status == "cancelled":
        st.caption("Stopped.")
        st.button("Go on", key=f"resume_{section}", on_click=leave, args=(section,))
    return job if job.status == "done" else None
