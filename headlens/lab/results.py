"""What a run of the lab found, as plain values. No torch here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from headlens.lab.specs import RunSpec

if TYPE_CHECKING:
    from headlens.store import Store

SUCCESS_SYMBOLS = 0.1
"""A run has learnt (or kept) the task when its held-out loss is below this share of one symbol; fixed in advance.

A missing distance costs a whole symbol, so the rule tells apart "all distances" and "one missing" with room on both
sides.
"""

FOUND_FACTOR = 1.5
"""A distance is found when some head gives it, averaged over scored positions, so many times even attention.

Low, since Qwen3-shaped heads know distances that get less than a tenth of their attention; even attention is 0.045 in
the usual task. Where a head looks is not what the model makes of it: of the 480 distances in the shipped runs of the
main question this rule and the loss (less than half a bit lost) agree on 469.
"""


@dataclass(frozen=True)
class Checkpoint:
    """The prunable share of heads at one moment of the training; see :class:`headlens.lab.pruning.Prunable`."""

    step: int
    bits: float
    by_size: tuple[float, ...]
    share: float | None


@dataclass(frozen=True)
class RunResult:
    """One finished run. Losses are held-out, in bits.

    Attributes:
        spec: what was run.
        loss_bits, loss_sem: with all heads of the model, and the standard error over sequences.
        by_distance: loss of each distance's symbol alone, in the task's order.
        attention: mean attention ``[heads][distance]``, distances 0 to the longest.
        heads: labels (numbers in the model from scratch) of the heads that the model has.
        before_bits: loss before the further training; None for runs from scratch.
        kept: heads that greedy pruning to ``spec.prune_to`` keeps; None where nothing was pruned.
        pruned_loss_bits, pruned_loss_sem: loss with those alone, without retraining.
        by_size: loss with 0, 1, ... all heads kept, greedily chosen, ``[heads + 1]``.
        random_bits: loss with random choices of ``spec.prune_to`` heads instead.
        checkpoints: the prunable share along the training; empty unless asked for.
        curve: (steps done, mean training loss in bits since the point before).
        parameters: of the model.
        flops: floating-point operations of this run's training alone.
        seconds: time that training and measuring took.
    """

    spec: RunSpec
    loss_bits: float
    loss_sem: float
    by_distance: tuple[float, ...]
    attention: tuple[tuple[float, ...], ...]
    heads: tuple[int, ...]
    before_bits: float | None
    kept: tuple[int, ...] | None
    pruned_loss_bits: float | None
    pruned_loss_sem: float | None
    by_size: tuple[float, ...]
    random_bits: tuple[float, ...]
    checkpoints: tuple[Checkpoint, ...]
    curve: tuple[tuple[int, float], ...]
    parameters: int
    flops: int
    seconds: float

    @property
    def found(self) -> tuple[int, ...]:
        """The task's distances that some head attends to, ascending; the rule is :data:`FOUND_FACTOR`.

        Attention says where a head looks, not what the model makes of it; ``by_distance`` says that.
        """
        least = FOUND_FACTOR * self.spec.task.even
        return tuple(d for d in sorted(self.spec.task.distances) if self.weight(d) >= least)

    def weight(self, distance: int) -> float:
        """The largest mean attention that any head gives to a distance."""
        return max(row[distance] for row in self.attention)

    @property
    def succeeded(self) -> bool:
        """Whether the model knows all distances: the loss is below the limit."""
        return self.loss_bits < self.limit

    @property
    def pruned_succeeded(self) -> bool | None:
        """The same for the pruned model; None where nothing was pruned."""
        return None if self.pruned_loss_bits is None else self.pruned_loss_bits < self.limit

    @property
    def limit(self) -> float:
        """The loss in bits below which a run has succeeded."""
        return SUCCESS_SYMBOLS * self.spec.task.bits_a_distance

    def to_dict(self) -> dict[str, Any]:
        """Plain types, which :meth:`from_dict` reads back."""
        return asdict(self)

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> RunResult:
        """The result that :meth:`to_dict` wrote, also after a way through JSON."""
        values = {f.name: _frozen(plain[f.name]) for f in fields(cls) if f.name not in ("spec", "checkpoints")}
        checkpoints = tuple(
            Checkpoint(**{name: _frozen(value) for name, value in one.items()}) for one in plain["checkpoints"]
        )
        return cls(spec=RunSpec.from_dict(plain["spec"]), checkpoints=checkpoints, **values)


def _frozen(value: Any) -> Any:
    return tuple(_frozen(item) for item in value) if isinstance(value, (list, tuple)) else value


@cache
def versions() -> dict[str, str]:
    """The libraries whose versions can change a run's last bits."""
    return {name: version(name) for name in ("torch", "transformers")}


def stored(spec: RunSpec, store: Store) -> RunResult | None:
    """The result of a run that was finished before with the same libraries, or None."""
    meta = store.meta(spec.key(versions()))
    return None if meta is None else RunResult.from_dict(meta["result"])
