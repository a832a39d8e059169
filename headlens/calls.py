"""Putting code around the calls of a module by giving it a subclass, which survives deep copies and accelerate."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn


class Mark:
    """Something written on a module that a copy of the model must not carry: a deep copy is a plain model."""

    def __deepcopy__(self, memo: dict[int, Any]) -> None:
        return None


def replace_call(module: nn.Module, around: Callable[..., Any]) -> None:
    """Replaces the module's class by a subclass whose calls go through ``around(module, call, args, kwargs)``.

    A forward hook cannot skip a module's work or see an exception, and a replaced ``forward`` attribute would be shared
    by deep copies of the model and lost under accelerate's dispatch; a subclass has none of these troubles.
    """
    if all(cls.__dict__.get("_headlens_around") is not around for cls in type(module).__mro__):
        module.__class__ = _with_call(type(module), around)


@functools.cache
def _with_call(cls: type[nn.Module], around: Callable[..., Any]) -> type[nn.Module]:
    def call(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        return around(self, cls.__call__, args, kwargs)

    # The name stays: transformers and accelerate look classes up by it.
    names = {"__module__": cls.__module__, "__qualname__": cls.__qualname__}
    return type(cls.__name__, (cls,), {**names, "__call__": call, "_headlens_around": around})


def call_one_at_a_time(model: nn.Module) -> None:
    """From now on the forward passes of different threads wait for each other."""
    model._headlens_lock = _Lock()  # type: ignore[assignment]
    replace_call(model, _call_alone)


class _Lock(Mark):
    """Held by the thread whose forward pass is running."""

    def __init__(self) -> None:
        self.lock = threading.RLock()


def _call_alone(model: Any, call: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    with nullcontext() if model._headlens_lock is None else model._headlens_lock.lock:
        return call(model, *args, **kwargs)
