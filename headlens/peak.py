"""The most memory that tensors take at one moment, on any device, without asking the device."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class PeakMemory(TorchDispatchMode):
    """Adds up the storages that operations make inside the ``with`` block and that are still alive.

    What one operation takes for itself while it runs is not seen.

    Attributes:
        peak: the largest sum so far, bytes.
    """

    def __init__(self) -> None:
        super().__init__()
        self.peak = self._now = 0
        self._alive: dict[int, weakref.ref[Any]] = {}

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Called in place of each operation."""
        output = func(*args, **(kwargs or {}))
        before = {self._key(tensor) for tensor in tree_leaves((args, kwargs)) if isinstance(tensor, torch.Tensor)}
        for tensor in tree_leaves(output):
            if isinstance(tensor, torch.Tensor) and not tensor.is_meta and self._key(tensor) not in before:
                self._add(tensor.untyped_storage())
        return output

    @staticmethod
    def _key(tensor: torch.Tensor) -> int:
        return 0 if tensor.is_meta else tensor.untyped_storage()._cdata

    def _add(self, storage: torch.UntypedStorage) -> None:
        key, size = storage._cdata, storage.nbytes()
        if key in self._alive:
            return

        def gone(_: object) -> None:
            if self._alive.pop(key, None) is not None:
                self._now -= size

        self._alive[key] = weakref.ref(storage, gone)
        self._now += size
        self.peak = max(self.peak, self._now)
