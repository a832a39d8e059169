"""Long work beside the page: one background thread for each distinct computation, shared by everyone who looks at it.

A job is found by a key that says what it computes, so ten people who ask for the same scores wait for one computation.
It waits for its turn in a fair line (:mod:`headlens.server.turns`), reports progress and partial results, and stops by
itself when nobody has looked for a while (the last tab was closed). Who cancels stops waiting; the work goes on while
others wait for it. Nothing here touches Streamlit: pages poll.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any

from headlens.errors import Cancelled, HeadlensError
from headlens.server import logs
from headlens.server.turns import BusyError, Turns
from headlens.ui.job import Job

__all__ = ["Job", "Jobs"]

_logger = logging.getLogger(__name__)


class Jobs:
    """All jobs of a server.

    Args:
        keep: how many ended jobs are kept.
        turns: the line that jobs wait in; None: each starts at once.
        on_end: called, in the job's thread, when one has ended.
    """

    def __init__(
        self, keep: int = 256, turns: Turns | None = None, on_end: Callable[[Job], None] | None = None
    ) -> None:
        self._jobs: dict[Hashable, Job] = {}
        self._lock = threading.Lock()
        self._keep = keep
        self._turns, self._on_end = turns, on_end
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

    def start(
        self,
        key: Hashable,
        title: str,
        work: Callable[[Job], Any],
        viewer: str,
        *,
        implied: bool = False,
        settle: float = 0.0,
    ) -> Job:
        """The job for ``key``: the one that is there (running or done), else a new one that runs ``work(job)``.

        Args:
            key: what it computes.
            title: what it does, for people.
            work: does it.
            viewer: the session that asks; its turn is taken.
            implied: the page asks by being drawn, not the user by a click: who has cancelled it is left alone, and
                what is cancelled or was refused is not started again for them.
            settle: seconds to wait before lining up, for what the next click may make needless.
        """
        with self._lock:
            job = self._jobs.get(key)
            if job is not None:
                if implied and job.has_left(viewer) and job.status in ("running", "cancelled"):
                    return job
                if job.status in ("running", "done") and not (job.running and job._stop.is_set()):
                    job.rejoin(viewer)
                    return job
            new = Job(key, title, _clear=self._clear)
            if job is not None:
                new._left = job._left - {viewer}
            new.look(viewer)
            self._jobs[key] = new
            self._forget()
        threading.Thread(target=self._run, args=(new, work, viewer, settle), name=f"job {title}", daemon=True).start()
        return new

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

    def _run(self, job: Job, work: Callable[[Job], Any], viewer: str, settle: float) -> None:
        facts: dict[str, Any] = {}
        waited = 0.0
        try:
            waited = self._line_up(job, viewer, settle)
            job.result = work(job)
            job.status = "done"
        except Cancelled:
            job.status = "cancelled"
        except HeadlensError as error:
            job.refused = isinstance(error, BusyError)
            job.error, job.status = str(error), "failed"
            facts = {"error": type(error).__name__}
        except Exception as error:  # noqa: BLE001 - a bug in one computation must not end the thread silently
            _log_bug(job, error)
            facts = logs.error_facts(error)
            job.error, job.status = "something went wrong in this computation; the server's log says what", "failed"
        finally:
            if job._ticket is not None:
                job._ticket.leave()
            job.finished = time.monotonic()
            job.version += 1
            seconds = job.finished - job.started
            logs.event("job", kind=kind_of(job.key), status=job.status, seconds=seconds, waited=waited, **facts)
            if self._on_end is not None:
                self._on_end(job)

    def _line_up(self, job: Job, viewer: str, settle: float) -> float:
        """Waits for a turn; the seconds that it took."""
        start = time.monotonic()
        while (left := start + settle - time.monotonic()) > 0:
            job.check()
            time.sleep(min(0.1, left))
        start = time.monotonic()
        if self._turns is not None:
            job._ticket = self._turns.join(viewer)
            while not job._ticket.wait(0.2):
                job.check()
        return time.monotonic() - start


def kind_of(key: Hashable) -> str:
    """What sort of computation a key names: its first part, if that is a word of ours."""
    first = key[0] if isinstance(key, tuple) and key else key
    return first if isinstance(first, str) and len(first) <= 40 else "other"


def _log_bug(job: Job, error: Exception) -> None:
    """The traceback for whoever runs this on their own machine; with structured logs its words stay out of them."""
    if logs.is_on():
        return
    _logger.error("job %r failed", job.title, exc_info=error)
