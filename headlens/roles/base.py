"""What a role detector is: a formula on attention patterns, with a threshold and where both come from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from headlens.metrics import double

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

Input = Literal["text", "twice", "four times"]
"""What a detector looks at: the given data, or random blocks of tokens that are repeated."""
Need = Literal["same axis", "tokens", "both directions"]
"""``same axis``: queries and keys are positions of one text; ``tokens``: the ids at the keys; ``both directions``: not
a causal layer."""
MAJORITY = "ours: more than half of the attention"


@dataclass(frozen=True)
class Repeat:
    """A random block of ``block`` tokens, ``times`` times in a row, after ``front`` other tokens."""

    front: int
    block: int
    times: int


@dataclass(frozen=True)
class Seen:
    """What a detector gets: one layer's pattern in one batch.

    Attributes:
        pattern: float32 ``[rows, heads, query, key]``; rows sum to 1.
        queries, keys: positions that are not padding, bool ``[rows, query]`` and ``[rows, key]``.
        causal: whether a query sees only keys at or before its own position.
        separators, punctuation: keys that hold such a token, bool ``[rows, key]``; None without tokens.
        repeat: how the tokens repeat; None for ordinary data.
    """

    pattern: Tensor
    queries: Tensor
    keys: Tensor
    causal: bool
    separators: Tensor | None = None
    punctuation: Tensor | None = None
    repeat: Repeat | None = None

    def diagonal(self, offset: int) -> Tensor:
        """``A[i, i + offset]`` of the queries that have such a key, ``[rows, heads, those queries]``."""
        return self.pattern.diagonal(offset, -2, -1)


Tally = tuple["Tensor", "Tensor"]
"""Sums over the positions of each example: ``[rows, heads, bins]``, and their number, ``[rows]``."""


class Detector(ABC):
    """One role: a class, a line in the registry, a test.

    Attributes:
        name: as in files and on the command line.
        title: as shown.
        formula: of the score, in plain text; A is the pattern, i a query, j a key.
        source: who uses it.
        threshold: from which score on a head has the role; None: the score is only a description.
        threshold_source: where the threshold comes from.
        unit: of the score.
        looks_at: which data.
        needs: see :data:`Need`.
        general: other roles go first when a head gets its label.
        bins: how many sums are kept for each head.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    formula: ClassVar[str]
    source: ClassVar[str]
    threshold: ClassVar[float | None] = 0.5
    threshold_source: ClassVar[str] = MAJORITY
    unit: ClassVar[str] = "share of attention"
    looks_at: ClassVar[Input] = "text"
    needs: ClassVar[tuple[Need, ...]] = ("same axis",)
    general: ClassVar[bool] = False
    bins: ClassVar[int] = 1

    @abstractmethod
    def tally(self, seen: Seen) -> Tally:
        """Sums over the positions of each example, and how many positions there are."""

    def score(self, sums: np.ndarray, count: np.ndarray) -> np.ndarray:
        """Scores ``[...]`` from sums ``[..., bins]`` and counts ``[...]``; NaN where nothing was counted."""
        return sums[..., 0] / count

    def describe(self) -> dict[str, object]:
        """Name, title, formula, threshold and sources, JSON-ready."""
        names = ("name", "title", "formula", "source", "threshold", "threshold_source", "unit", "looks_at")
        return {name: getattr(self, name) for name in names}


def over_queries(values: Tensor, counted: Tensor) -> Tally:
    """Sums ``[rows, heads, query]`` over the queries that count, bool ``[rows, query]``."""
    total = double(values.masked_fill(~counted[:, None], 0.0)).sum(-1, keepdim=True)
    return total, counted.sum(-1)
