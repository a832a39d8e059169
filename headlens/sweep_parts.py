"""What a sweep is asked, what it is cut into, and what comes out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from headlens.heads import Unit
    from headlens.metrics import Metric
    from headlens.switches import Ablation


@dataclass(frozen=True)
class SweepSpec:
    """What is measured when one head is off."""

    metric: Metric
    ablation: Ablation = "zero"
    unit: Unit = "head"
    seed: int = 0


@dataclass(frozen=True)
class Baseline:
    """Sums with every head on: ``numerator`` and ``denominator``, float64 ``[examples]`` each."""

    numerator: np.ndarray
    denominator: np.ndarray


@dataclass(frozen=True)
class UnitResult:
    """The effects of one layer.

    Attributes:
        site, layer: which layer.
        columns: labels of the heads (or groups) in it.
        effect: rise of the metric's numerator per example when the head is off, ``[examples, columns]``; for metrics
            where higher is better the sign is turned, so positive always means that the head helps.
        cached: taken from the store.
    """

    site: str
    layer: int
    columns: tuple[int, ...]
    effect: np.ndarray
    cached: bool


@dataclass(frozen=True)
class Part:
    """A unit of a sweep, or some batches of it.

    Attributes:
        site, layer: which layer; an empty site stands for the baseline.
        batches: numbers of the batches; empty for all of them.
    """

    site: str
    layer: int
    batches: tuple[int, ...] = ()


BASELINE = Part("", 0)


def portions(columns: int, copies: int) -> Sequence[list[int]]:
    """Column indices in portions of nearly equal size, none larger than ``copies``."""
    count = -(-columns // copies)
    return [part.tolist() for part in np.array_split(np.arange(columns), count)] if columns else []


class Whole:
    """Puts the parts of a unit together as they come, by the examples that each is about; twice is as good as once."""

    def __init__(self, examples: int) -> None:
        self._there = np.zeros(examples, dtype=bool)
        self.arrays: dict[str, np.ndarray] = {}

    def add(self, rows: Sequence[int], found: dict[str, np.ndarray]) -> bool:
        """Whether nothing is missing any more; ``found`` are arrays ``[rows, ...]``."""
        for name, values in found.items():
            empty = np.full((len(self._there), *values.shape[1:]), np.nan)
            self.arrays.setdefault(name, empty)[list(rows)] = values
        self._there[list(rows)] = True
        return bool(self._there.all())
