"""What one forward pass is to do differently. Lives in a context variable, never on the model.

Hooks are installed once, when a model is opened (:mod:`headlens.instrument`). They read the current :class:`Run` of
their own model from here, so two threads that switch off different heads of one shared model at the same moment each
get their own right answer, with no lock around the forward pass, and an exception leaves nothing behind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

LayerKey = tuple[str, int]
"""(site, layer)."""


@dataclass
class Edit:
    """What happens to the heads of one layer at the input of its output projection.

    Attributes:
        off: heads to replace, bool ``[rows or 1, heads]`` in weight order.
        value: what replaces their ``z``: None for zero, or broadcastable to ``[rows, query, heads, d_head]``.
        gate: factor on each head's ``z``, ``[rows or 1, heads]``; gradients are taken with respect to it.
    """

    off: Tensor | None = None
    value: Tensor | None = None
    gate: Tensor | None = None


@dataclass
class Replay:
    """Blocks that are not computed again: a prefix whose last output is known.

    Attributes:
        outputs: for each stack that is skipped in part, (number of leading blocks skipped, what they return).
        stop: (stack, index): stop the forward after this block and hand out its output.
    """

    outputs: Mapping[str, tuple[int, Any]] = field(default_factory=dict)
    stop: tuple[str, int] | None = None


@dataclass
class Run:
    """Everything the hooks may do in the current context; the default does nothing.

    Attributes:
        edits: switches and gates, by (site, layer).
        on_z: called with (site, layer, ``z`` ``[rows, query, heads, d_head]``) before any edit; must not write to it.
        z_of: the layers whose ``z`` is wanted; None for all.
        on_pattern: called with (site, layer, pattern float32 ``[rows, heads, query, key]``).
        pattern_of: the layers whose pattern is wanted; None for all.
        replay: prefix reuse.
        on_block: called with (stack, index, output of the block) after a block was computed.
        calls: blocks called so far in this forward, by (stack, thread): where weights are shared, one module has many
            calls, and one run may be used by several threads.
    """

    edits: Mapping[LayerKey, Edit] = field(default_factory=dict)
    on_z: Callable[[str, int, Tensor], None] | None = None
    z_of: frozenset[LayerKey] | None = None
    on_pattern: Callable[[str, int, Tensor], None] | None = None
    pattern_of: frozenset[LayerKey] | None = None
    replay: Replay | None = None
    on_block: Callable[[str, int, Any], None] | None = None
    calls: dict[tuple[str, int], int] = field(default_factory=dict)

    def wants_z(self, key: LayerKey) -> bool:
        """Whether ``z`` of this layer is to be handed out."""
        return self.on_z is not None and (self.z_of is None or key in self.z_of)

    def wants_pattern(self, key: LayerKey) -> bool:
        """Whether the pattern of this layer is to be handed out."""
        return self.on_pattern is not None and (self.pattern_of is None or key in self.pattern_of)


class StopForward(Exception):  # noqa: N818 - control flow, not an error
    """Raised inside a forward pass when the block named by ``Replay.stop`` is done; carries its output."""

    def __init__(self, output: Any) -> None:
        super().__init__()
        self.output = output


_RUNS: ContextVar[Mapping[int, Run]] = ContextVar("headlens_runs", default={})  # noqa: B039 - never written to


def current(owner: int) -> Run | None:
    """The Run that applies to the model of ``owner`` in this context, or None."""
    return _RUNS.get().get(owner)


@contextmanager
def running(owner: int, run: Run) -> Iterator[Run]:
    """Applies ``run`` to the model of ``owner`` inside the ``with`` block, in this context only.

    A nested use replaces the outer run as a whole and restores it at its end, also after an exception.
    """
    token = _RUNS.set({**_RUNS.get(), owner: run})
    try:
        yield run
    finally:
        _RUNS.reset(token)
