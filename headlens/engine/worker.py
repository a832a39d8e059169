"""What runs in a worker process: it opens a model once and does units, one after the other, on one thread.

No ray here: the engine makes an actor of :class:`Worker`.
"""

from __future__ import annotations

import os
import socket
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, Protocol

import headlens
from headlens.errors import HeadlensError

KINDS = {
    "sweep": "headlens.sweep_worker:worker_for",
    "all-but-one": "headlens.sweep_worker:one_left",
    "head sets": "headlens.pruning.set_units:worker_for",
    "lab": "headlens.lab.elsewhere:worker_for",
}
"""Where to find what does the units of each kind of job: a function of (shared, opened models)."""
COMPARED = ("headlens", "torch", "transformers")
"""Packages whose versions decide the numbers, so that all workers must have the command's own."""
SECONDS_BETWEEN_NOTES = 0.25
NOT_READY = ("failed", "the job is not ready")
Note = Callable[[Any], None]


class Doer(Protocol):
    """Does the units of one job."""

    def do(self, order: Mapping[str, Any], note: Note) -> Any:
        """One unit; ``note`` tells how far it is."""
        ...


def versions() -> dict[str, str]:
    """Of the packages that decide the numbers; builds of one version (``+cpu``) count as the same."""
    found = {"headlens": headlens.__version__}
    for name in COMPARED[1:]:
        try:
            found[name] = version(name).partition("+")[0]
        except PackageNotFoundError:
            found[name] = "missing"
    return found


class Worker:
    """One process of a cluster."""

    def __init__(self) -> None:
        self.opened: dict[Any, Any] = {}
        self.number = -1
        self.doer: Doer | None = None
        self.trouble = NOT_READY

    def hello(self) -> dict[str, Any]:
        """Who is here; quick, so that a wrong version is told before torch is imported."""
        return {"host": socket.gethostname(), "process": os.getpid(), "versions": versions()}

    def prepare(self, number: int, kind: str, shared: Mapping[str, Any]) -> None:
        """Gets ready for the units of job ``number``; what goes wrong is told by the first unit."""
        self.number, self.doer, self.trouble = number, None, NOT_READY
        import torch

        torch.set_num_threads(1)  # the same bits whatever the machine has
        try:
            module, _, name = KINDS[kind].partition(":")
            self.doer = getattr(import_module(module), name)(shared, self.opened)
        except Exception as error:  # noqa: BLE001 - told by the first unit
            self.trouble = _told(error)

    def do(self, number: int, order: Mapping[str, Any]) -> Iterator[tuple[Any, ...]]:
        """Does a unit: yields ("note", ...) now and then, and last ("done", found, seconds) or ("failed", why)."""
        if self.doer is None or number != self.number:
            yield self.trouble
            return
        notes: SimpleQueue[tuple[Any, ...]] = SimpleQueue()
        thread = Thread(target=_do, args=(self.doer, order, notes), daemon=True)
        thread.start()
        last = time.monotonic()
        held = None
        while True:
            try:
                said = notes.get(timeout=SECONDS_BETWEEN_NOTES)
            except Empty:
                said = None
            if said is not None and said[0] != "note":
                yield said
                return
            held = said or held
            if held is not None and time.monotonic() - last >= SECONDS_BETWEEN_NOTES:
                yield held
                held, last = None, time.monotonic()


def _do(doer: Doer, order: Mapping[str, Any], notes: SimpleQueue[tuple[Any, ...]]) -> None:
    start = time.perf_counter()
    try:
        found = doer.do(order, lambda note: notes.put(("note", note)))
    except Exception as error:  # noqa: BLE001 - told to the command, which raises it
        notes.put(_told(error))
    else:
        notes.put(("done", found, time.perf_counter() - start))


def _told(error: Exception) -> tuple[str, str]:
    """An error as it is sent: what kind, and its line or its traceback."""
    if isinstance(error, HeadlensError):
        return "failed", str(error)
    trace = "".join(traceback.format_exception(error))
    short = isinstance(error, MemoryError) or "can't allocate memory" in str(error) or "out of memory" in str(error)
    return ("memory" if short else "bug"), trace
