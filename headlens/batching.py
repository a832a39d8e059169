"""How much goes through a model at once, and less of it when memory runs out.

What methods choose for themselves (``--batch-size auto``) is scaled by one number that lives in a context variable, so
that work which ran out of memory can be done again in smaller portions. Portions change no score beyond rounding.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

from headlens.errors import HeadlensError

SMALLEST = 2.0**-10
"""Below this even a single short example was too much."""

_SCALE: ContextVar[float] = ContextVar("headlens_portion", default=1.0)
Result = TypeVar("Result")


def at_once(usual: int) -> int:
    """How many rows, tokens or bytes to take at once where ``usual`` is normal; at least 1."""
    return max(1, int(usual * _SCALE.get()))


@contextmanager
def portions(scale: float) -> Iterator[None]:
    """Inside, in this context only, work is done in portions of ``scale`` times the usual size."""
    token = _SCALE.set(scale)
    try:
        yield
    finally:
        _SCALE.reset(token)


def within_memory(compute: Callable[[], Result], *, scale: float = 1.0, say: Callable[[str], None]) -> Result:
    """Does ``compute``, again in portions half as large each time it runs out of memory.

    What it has put into the store is not computed again.

    Args:
        compute: the work.
        scale: of the portions at first, see :func:`at_once`.
        say: told of every halving.

    Raises:
        HeadlensError: not even the smallest portions fit.
    """
    while True:
        with portions(scale):
            try:
                return compute()
            except (MemoryError, RuntimeError) as error:
                if not is_out_of_memory(error):
                    raise
                reason = str(error)
        # Outside the handler: the traceback held on to every tensor of the failed pass.
        scale /= 2
        if scale < SMALLEST:
            raise HeadlensError("not enough memory for one example at a time; use a smaller --max-tokens or --dtype")
        _free()
        where = "the GPU's memory" if "CUDA" in reason else "memory"
        say(f"{where} ran out: going on with portions half as large ({scale:.3g} of the usual size)")


def is_out_of_memory(error: BaseException) -> bool:
    """Told by name and text: torch's CPU allocator raises a plain RuntimeError."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    text = str(error)
    return isinstance(error, RuntimeError) and ("can't allocate memory" in text or "out of memory" in text)


def _free() -> None:
    gc.collect()
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        torch.cuda.empty_cache()
