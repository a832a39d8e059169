"""What a role detector is: a formula on attention patterns, with a threshold and where both come from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

from headlens.metrics import double

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

    from headlens.data.encode import Batch, EncodedData

Input = Literal["text", "twice", "four times", "parsed", "needle"]
"""What a detector looks at: the given data, random blocks of tokens that are repeated, stories whose parse is known, or
long texts with a sentence in them that is asked for."""
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
class Links:
    """What a head that knows the parse of one text would look at, in words.

    Attributes:
        word_of: the word that each token belongs to, ``[tokens]``; -1 for tokens outside of words.
        kind: kind of link of each question, int64 ``[questions]``.
        query: the word that looks, int64 ``[questions]``.
        targets: the words that it should look at, bool ``[questions, words]``.
        baseline: whether the best fixed offset of the kind would be right, bool ``[questions]``.
    """

    word_of: Tensor
    kind: Tensor
    query: Tensor
    targets: Tensor
    baseline: Tensor


@dataclass(frozen=True)
class Needle:
    """The sentence in a long text that the model says again.

    Attributes:
        queries: positions from which the model says a token of it, int64 ``[said]``.
        keys: where that token stands in the sentence, bool ``[said, key]``.
        length: tokens of the sentence that could be said.
    """

    queries: Tensor
    keys: Tensor
    length: int


class Source(Protocol):
    """Data that some detectors look at."""

    @property
    def data(self) -> EncodedData:
        """The examples."""
        ...

    def seen(self, site: str, causal: bool, batch: Batch) -> dict[str, Any] | None:
        """More fields of :class:`Seen` for a batch; None where the site does not see this data."""
        ...


@dataclass(frozen=True)
class Seen:
    """What a detector gets: one layer's pattern in one batch.

    Attributes:
        pattern: float32 ``[rows, heads, query, key]``; rows sum to 1.
        queries, keys: positions that are not padding, bool ``[rows, query]`` and ``[rows, key]``.
        causal: whether a query sees only keys at or before its own position.
        separators, punctuation: keys that hold such a token, bool ``[rows, key]``; None without tokens.
        repeat: how the tokens repeat; None for ordinary data.
        frequency: how often the token at each key comes in the data, int64 ``[rows, key]``; None without tokens.
        special: keys that hold a special token or padding, bool ``[rows, key]``; None without tokens.
        links: what the parse of each row says; None for other data.
        needles: what each row says again; None for other data.
    """

    pattern: Tensor
    queries: Tensor
    keys: Tensor
    causal: bool
    separators: Tensor | None = None
    punctuation: Tensor | None = None
    repeat: Repeat | None = None
    frequency: Tensor | None = None
    special: Tensor | None = None
    links: tuple[Links, ...] | None = None
    needles: tuple[Needle, ...] | None = None

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
        least: with fewer positions in all examples together there is no score.
        costly: it needs long texts of its own, so it is computed only when it is asked for.
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
    least: ClassVar[int] = 1
    costly: ClassVar[bool] = False

    @abstractmethod
    def tally(self, seen: Seen) -> Tally:
        """Sums over the positions of each example, and how many positions there are."""

    def score(self, sums: np.ndarray, count: np.ndarray) -> np.ndarray:
        """Scores ``[...]`` from sums ``[..., bins]`` and counts ``[...]``; NaN where nothing was counted."""
        return sums[..., 0] / count

    def detail(self, sums: np.ndarray) -> np.ndarray | None:  # noqa: ARG002
        """In words what each head does best, from sums ``[..., bins]``; None where the score says it all."""
        return None

    def describe(self) -> dict[str, object]:
        """Name, title, formula, threshold and sources, JSON-ready."""
        names = ("name", "title", "formula", "source", "threshold", "threshold_source", "unit", "looks_at")
        return {name: getattr(self, name) for name in names}


def over_queries(values: Tensor, counted: Tensor) -> Tally:
    """Sums ``[rows, heads, query]`` over the queries that count, bool ``[rows, query]``."""
    total = double(values.masked_fill(~counted[:, None], 0.0)).sum(-1, keepdim=True)
    return total, counted.sum(-1)
