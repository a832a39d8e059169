"""Small results that many ask for: computed once, kept by least-recent use within a number of bytes.

Who asks for what somebody else is computing waits for that one. If the one who computes gives up (a page that was
closed or run again), the next of those who wait takes over, so nobody's cancelling spoils another's answer.
"""

from __future__ import annotations

import dataclasses
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from typing import Any

WAIT_SECONDS = 0.5
_OVERHEAD = 400
"""Bytes that an entry costs beside its content, about."""
MISSING = object()


class Shared:
    """Results by key.

    Args:
        max_bytes: what all results together may take; a larger one is handed out and not kept.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.bytes = 0
        self.computed = 0
        self._found: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._at_work: dict[Hashable, threading.Event] = {}
        self._lock = threading.Lock()

    def peek(self, key: Hashable) -> Any:
        """The result, or :data:`MISSING`."""
        with self._lock:
            if key not in self._found:
                return MISSING
            self._found.move_to_end(key)
            return self._found[key][0]

    def compute(self, key: Hashable, work: Callable[[], Any], on_wait: Callable[[], None] | None = None) -> Any:
        """The result of ``work``, which is called by one of those who ask at the same time, and only if it is missing.

        Args:
            key: says what is computed.
            work: computes it; what it raises is raised for its caller alone, and the next one tries.
            on_wait: called twice a second while somebody else computes it; may raise to give up.
        """
        while True:
            with self._lock:
                if key in self._found:
                    self._found.move_to_end(key)
                    return self._found[key][0]
                busy = self._at_work.get(key)
                if busy is None:
                    mine = self._at_work[key] = threading.Event()
                    break
            while not busy.wait(WAIT_SECONDS):
                if on_wait is not None:
                    on_wait()
        try:
            result = work()
            self._keep(key, result)
            return result
        finally:
            with self._lock:
                del self._at_work[key]
            mine.set()

    def clear(self) -> None:
        """Forgets all results."""
        with self._lock:
            self._found.clear()
            self.bytes = 0

    def __len__(self) -> int:
        return len(self._found)

    def _keep(self, key: Hashable, result: Any) -> None:
        size = size_of(result) + _OVERHEAD
        with self._lock:
            self.computed += 1
            if size > self.max_bytes:
                return
            self._found[key] = (result, size)
            self.bytes += size
            while self.bytes > self.max_bytes:
                self.bytes -= self._found.popitem(last=False)[1][1]


def size_of(value: Any) -> int:
    """Bytes of a result: its arrays and tensors (each once), containers and texts."""
    return _size(value, set())


def _size(value: Any, seen: set[int]) -> int:
    if value is None or isinstance(value, bool | int | float | type) or id(value) in seen:
        return 0
    seen.add(id(value))
    if (nbytes := getattr(value, "nbytes", None)) is not None and isinstance(nbytes, int):
        return nbytes
    if isinstance(value, str | bytes):
        return sys.getsizeof(value)
    if isinstance(value, Mapping):
        return 64 + sum(32 + _size(name, seen) + _size(item, seen) for name, item in value.items())
    if isinstance(value, list | tuple | set | frozenset):
        return 64 + sum(8 + _size(item, seen) for item in value)
    if dataclasses.is_dataclass(value):
        return 64 + sum(_size(getattr(value, field.name), seen) for field in dataclasses.fields(value))
    return sys.getsizeof(value)
