"""Opened models, shared by all sessions: opened once, kept by least-recent use within a measured number of bytes.

A model that has gone from the shelf lives on while somebody still looks through it, and comes back onto the shelf,
without being opened again, when it is asked for meanwhile.
"""

from __future__ import annotations

import gc
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headlens.errors import ModelError

if TYPE_CHECKING:
    from headlens.lens import Lens


@dataclass
class _Entry:
    lens: Lens
    own_bytes: int
    companions: dict[Hashable, Any] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def bytes(self) -> int:
        """Of the weights and of what is kept with them."""
        return self.own_bytes + sum(int(getattr(each, "nbytes", 0)) for each in self.companions.values())


@dataclass(frozen=True)
class Held:
    """A model in memory: its name, its bytes, and whether it is on the shelf (else only in use)."""

    name: str
    bytes: int
    kept: bool


class Shelf:
    """The models of a server. Safe to use from many threads.

    Args:
        open_model: opens a model by name.
        max_bytes: what the kept models may take together; asked for anew each time.
        needed_bytes: what a model is going to take, roughly, before it is opened (0: not known).
        on_gone: called when a model has left the shelf, to forget what else holds it.
        on_opened: called with a model, its bytes and the seconds that opening took.
    """

    def __init__(
        self,
        open_model: Callable[[str], Lens],
        max_bytes: Callable[[], int],
        *,
        needed_bytes: Callable[[str], int] = lambda name: 0,  # noqa: ARG005
        on_gone: Callable[[], None] = lambda: None,
        on_opened: Callable[[Lens, int, float], None] = lambda lens, size, seconds: None,  # noqa: ARG005
    ) -> None:
        self._open, self._max_bytes, self._needed = open_model, max_bytes, needed_bytes
        self._on_gone, self._on_opened = on_gone, on_opened
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._gone: dict[str, tuple[weakref.ref[Lens], int]] = {}
        self._opening: dict[str, threading.Lock] = {}
        self._one_at_a_time = threading.Lock()
        self._lock = threading.RLock()

    def get(self, name: str) -> Lens:
        """The model of that name; opened by one of those who ask at the same time.

        Raises:
            ModelError: it cannot be opened; it does not fit the server's limit.
        """
        with self._lock:
            found = self._known(name)
            if found is not None:
                return found.lens
            opening = self._opening.setdefault(name, threading.Lock())
        with opening:
            with self._lock:
                found = self._known(name)
            return found.lens if found is not None else self._opened(name)

    def companion(self, lens: Lens, kind: Hashable, make: Callable[[], Any]) -> Any:
        """What is kept with a model and goes with it (its ``nbytes`` count); made by one of those who ask."""
        with self._lock:
            entry = self._entry_of(lens)
        with entry.lock:
            if kind not in entry.companions:
                entry.companions[kind] = make()
                with self._lock:
                    self._make_room(0, keep=lens.name)
            return entry.companions[kind]

    def peek(self, lens: Lens, kind: Hashable) -> Any:
        """A companion that is there already, or None."""
        with self._lock:
            entry = self._entries.get(lens.name)
            return entry.companions.get(kind) if entry is not None and entry.lens is lens else None

    def held(self) -> list[Held]:
        """Every model in memory, the least recently used first."""
        with self._lock:
            kept = [Held(name, entry.bytes, True) for name, entry in self._entries.items()]
            return [*(Held(name, size, False) for name, (lens, size) in self._gone.items() if lens()), *kept]

    def clear(self) -> None:
        """Lets all models go."""
        with self._lock:
            self._entries.clear()
            self._gone.clear()

    def _known(self, name: str) -> _Entry | None:
        if name not in self._entries and name in self._gone:
            lens = self._gone[name][0]()
            if lens is not None:
                return self._entry_of(lens)
        if name in self._entries:
            self._entries.move_to_end(name)
            return self._entries[name]
        return None

    def _entry_of(self, lens: Lens) -> _Entry:
        """The entry of a model that somebody holds; it comes back onto the shelf if it has left it."""
        entry = self._entries.get(lens.name)
        if entry is None or entry.lens is not lens:
            entry = self._entries[lens.name] = _Entry(lens, bytes_of(lens))
            self._gone.pop(lens.name, None)
            self._make_room(0, keep=lens.name)
        self._entries.move_to_end(lens.name)
        return entry

    def _opened(self, name: str) -> Lens:
        needed, limit = self._needed(name), self._max_bytes()
        if needed > limit:
            raise ModelError(
                f"{name[:80]} takes {needed / 1e6:,.0f} MB of memory, and this server gives models "
                f"{limit / 1e6:,.0f} MB; choose a smaller one"
            )
        with self._lock:
            self._make_room(needed, keep=name)
        start = time.monotonic()
        with self._one_at_a_time:  # transformers' lazy imports fail where two threads are the first to need them
            lens = self._open(name)
        size = bytes_of(lens)
        with self._lock:
            self._entries[name] = _Entry(lens, size)
            self._make_room(0, keep=name)
        self._on_opened(lens, size, time.monotonic() - start)
        return lens

    def _make_room(self, needed: int, keep: str) -> None:
        limit, went = self._max_bytes(), False
        while sum(entry.bytes for entry in self._entries.values()) + needed > limit:
            oldest = next((name for name in self._entries if name != keep), None)
            if oldest is None:
                break
            entry = self._entries.pop(oldest)
            self._gone[oldest] = (weakref.ref(entry.lens), entry.bytes)
            went = True
            del entry
        if went:
            self._on_gone()
            gc.collect()  # models and their hooks hold each other
            self._gone = {name: (lens, size) for name, (lens, size) in self._gone.items() if lens() is not None}


def bytes_of(lens: Lens) -> int:
    """Bytes of a model's parameters and buffers, shared ones once."""
    tensors = [*lens.model.parameters(), *lens.model.buffers()]
    storages = [tensor.untyped_storage() for tensor in tensors]
    return sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values())


def needed_bytes(name: str) -> int:
    """What a model is going to take, from the catalogue or from its files; 0 where it is not known before."""
    from headlens.models import catalogue, folders

    entry = catalogue.find(name)
    if entry is not None:
        return 4 * (entry.parameters or 0)
    from pathlib import Path

    try:
        return 4 * folders.stored_parameters(folders.weight_files(Path(name)))
    except (ModelError, OSError, ValueError):  # nothing there: opening it will say so
        return 0


def usual_bytes() -> int:
    """Half of this machine's memory."""
    import psutil

    return psutil.virtual_memory().total // 2
