"""Long work beside the page: one background thread for each distinct computation, shared by everyone who looks at it.

A job is found by a key that says what it computes, so ten people who ask for the same scores wait for one computation.
It reports progress and partial results, can be cancelled, and stops by itself when nobody has looked for a while (the
last tab was closed). Nothing here touches Streamlit: pages poll.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from headlens.errors import Cancelled, HeadlensError

_logger = logging.getLogger(__name__)

UNWATCHED_SECONDS = 15.0
"""A job that no page has looked at for so long stops; pages look every half second."""

PATIENCE_SECONDS = 5.0
"""Longest that a job stands aside, at each step, for what somebody waits for."""

Status = Literal["running", "done", "cancelled", "failed"]


@dataclass
class Job:
    """One computation.

    Attributes:
        key: what it computes.
        title: what it does, for people.
        status: where it stands.
        done, total: progress in the work's own units.
        partial: whatever the work has published last; replaced, never changed in place.
        version: counts publications, so pages know whether to redraw.
        result: what it returned.
        error: one line when it failed.
    """

    key: Hashable
    title: str
    status: Status = "running"
    done: int = 0
    total: int = 0
    partial: Any = None
    version: int = 0
    result: Any = None
    error: str = ""
    started: float = field(default_factory=time.monotonic)
    finished: float | None = None
    _first_progress: tuple[float, int] | None = None
    _stop: threading.Event = field(default_factory=threading.Event)
    _seen: dict[str, float] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _clear: threading.Event | None = None

    @property
    def running(self) -> bool:
        """Whether it is still at work."""
        return self.status == "running"

    def look(self, viewer: str) -> None:
        """Says that ``viewer`` (a browser session) wants this job to go on."""
        with self._lock:
            self._seen[viewer] = time.monotonic()

    def leave(self, viewer: str) -> None:
        """``viewer`` cancels; the work stops unless somebody else is still looking."""
        with self._lock:
            self._seen.pop(viewer, None)
            alone = not self._watched()
        if alone:
            self._stop.set()

    def _watched(self) -> bool:
        now = time.monotonic()
        return any(now - seen < UNWATCHED_SECONDS for seen in self._seen.values())

    def phase(self, title: str) -> None:
        """Called by the work: another part begins, with a progress of its own."""
        self.title, self.done, self.total, self._first_progress = title, 0, 0, None

    def progress(self, done: int, total: int) -> None:
        """Called by the work; stands aside while somebody waits for an answer (see :meth:`Jobs.ahead`).

        Raises:
            Cancelled: somebody cancelled it, or nobody is looking any more.
        """
        if self._first_progress is None:
            self._first_progress = (time.monotonic(), done)
        self.done, self.total = done, total
        with self._lock:
            watched = self._watched()
        if self._stop.is_set() or not watched:
            raise Cancelled
        if self._clear is not None:
            self._clear.wait(PATIENCE_SECONDS)

    def publish(self, partial: Any) -> None:
        """Called by the work: something worth showing already."""
        self.partial = partial
        self.version += 1

    @property
    def fraction(self) -> float:
        """Share done, 0 to 1."""
        return min(1.0, self.done / self.total) if self.total else 0.0

    @property
    def seconds_left(self) -> float | None:
        """Estimate from the speed so far (work taken from the store at the start does not count), or None."""
        if self._first_progress is None or not self.total:
            return None
        start, already = self._first_progress
        gained = self.done - already
        if gained <= 0:
            return None
        return (time.monotonic() - start) / gained * (self.total - self.done)


class Jobs:
    """All jobs of a server."""

    def __init__(self, keep: int = 256) -> None:
        self._jobs: dict[Hashable, Job] = {}
        self._lock = threading.Lock()
        self._keep = keep
        self._ahead = 0
        self._clear = threading.Event()
        self._clear.set()

    @contextmanager
    def ahead(self) -> Iterator[None]:
        """Inside, jobs stand aside at their next step: what a click asks for overtakes long work."""
        with self._lock:
            self._ahead += 1
            self._clear.clear()
        try:
            yield
        finally:
            with self._lock:
                self._ahead -= 1
                if not self._ahead:
                    self._clear.set()

    def get(self, key: Hashable) -> Job | None:
        """The job of that key, running or ended, if it is still kept."""
        return self._jobs.get(key)

    def start(self, key: Hashable, title: str, work: Callable[[Job], Any], viewer: str) -> Job:
        """The job for ``key``: the one that is there (running or done), else a new one that runs ``work(job)``."""
        with self._lock:
            job = self._jobs.get(key)
            if job is not None and job.status in ("running", "done"):
                job.look(viewer)
                if not (job.running and job._stop.is_set()):
                    return job
            job = Job(key, title, _clear=self._clear)
            job.look(viewer)
            self._jobs[key] = job
            self._forget()
        threading.Thread(target=_run, args=(job, work), name=f"job {title}", daemon=True).start()
        return job

    def put(self, key: Hashable, title: str, result: Any) -> Job:
        """Keeps a result that came out of other work, as a job that is done; a job at work on it is left alone."""
        now = time.monotonic()
        with self._lock:
            job = self._jobs.get(key)
            if job is None or not job.running:
                job = self._jobs[key] = Job(key, title, "done", result=result, started=now, finished=now)
                self._forget()
            return job

    def drop(self, key: Hashable) -> None:
        """Forgets an ended job, so that it can be started again."""
        with self._lock:
            job = self._jobs.get(key)
            if job is not None and not job.running:
                del self._jobs[key]

    def running(self) -> list[Job]:
        """Jobs at work now."""
        return [job for job in list(self._jobs.values()) if job.running]

    def _forget(self) -> None:
        ended = [key for key, job in self._jobs.items() if not job.running]
        for key in ended[: max(0, len(self._jobs) - self._keep)]:
            del self._jobs[key]


def _run(job: Job, work: Callable[[Job], Any]) -> None:
    try:
        job.result = work(job)
        job.status = "done"
    except Cancelled:
        job.status = "cancelled"
    except HeadlensError as error:
        job.error, job.status = str(error), "failed"
    except Exception:
        _logger.exception("job %r failed", job.title)
        job.error, job.status = "something went wrong in this computation; the server's log says what", "failed"
    finally:
        job.finished = time.monotonic()
        job.version += 1
