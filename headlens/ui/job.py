"""One computation beside the page: progress, partial results, who waits for it, and its turn."""

from __future__ import annotations

import threading
import time
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from headlens.errors import Cancelled
from headlens.server.turns import Ticket

UNWATCHED_SECONDS = 30.0
"""A job that no page has looked at for so long stops; pages look every half second,
on a busy server every few."""

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
        refused: it failed because the line was full; it may be asked for again.
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
    refused: bool = False
    started: float = field(default_factory=time.monotonic)
    finished: float | None = None
    _first_progress: tuple[float, int] | None = None
    _stop: threading.Event = field(default_factory=threading.Event)
    _seen: dict[str, float] = field(default_factory=dict)
    _left: set[str] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _clear: threading.Event | None = None
    _ticket: Ticket | None = None

    @property
    def running(self) -> bool:
        """Whether it is still at work, or waits for its turn."""
        return self.status == "running"

    @property
    def place(self) -> int:
        """Its place in the line: 1 is next, 0 at work."""
        return 0 if self._ticket is None else self._ticket.place

    @property
    def wait_seconds(self) -> float:
        """Likely wait for its turn."""
        return 0.0 if self._ticket is None else self._ticket.seconds

    def look(self, viewer: str) -> None:
        """Says that ``viewer`` (a browser session) wants this job to go on; not heard from those who have cancelled."""
        with self._lock:
            if viewer not in self._left:
                self._seen[viewer] = time.monotonic()

    def leave(self, viewer: str) -> None:
        """``viewer`` cancels; the work stops unless somebody else is still looking."""
        with self._lock:
            self._seen.pop(viewer, None)
            self._left.add(viewer)
            alone = not self._watched()
        if alone:
            self._stop.set()

    def rejoin(self, viewer: str) -> None:
        """``viewer`` wants it after all."""
        with self._lock:
            self._left.discard(viewer)
        self.look(viewer)

    def has_left(self, viewer: str) -> bool:
        """Whether ``viewer`` has cancelled."""
        return viewer in self._left

    @property
    def watchers(self) -> int:
        """How many sessions wait for it."""
        with self._lock:
            now = time.monotonic()
            return sum(now - seen < UNWATCHED_SECONDS for seen in self._seen.values())

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
        self.check()
        if self._clear is not None:
            self._clear.wait(PATIENCE_SECONDS)
        if self._ticket is not None and self._ticket.holds:
            self._ticket.step(self.check)

    def check(self) -> None:
        """Called by the work: raises Cancelled if somebody cancelled it, or nobody is looking any more."""
        with self._lock:
            watched = self._watched()
        if self._stop.is_set() or not watched:
            raise Cancelled

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Inside, the work only waits for something and leaves its turn to others.

        Raises:
            Cancelled: afterwards, while it waits for its turn again.
        """
        if self._ticket is None or not self._ticket.holds:
            yield
            return
        self._ticket.aside()
        yield
        self._ticket.back(self.check)

    @contextmanager
    def holding(self, lock: threading.Lock) -> Iterator[None]:
        """Holds a lock inside; waits for it without keeping others from their turns.

        Raises:
            Cancelled: while it waits.
        """
        mine = False
        try:
            with self.aside():
                while not (mine := lock.acquire(timeout=0.2)):
                    self.check()
            yield
        finally:
            if mine:
                lock.release()

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
