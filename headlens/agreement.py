"""Do two ways of scoring rank the heads alike? Rank correlations with intervals, and what their tops share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import hypergeom, kendalltau, rankdata

from headlens.errors import HeadlensError
from headlens.reliability import spearman

if TYPE_CHECKING:
    from headlens.scores import HeadScores

RESAMPLES = 1000
MIN_HEADS = 4
TOP_SHARE = 0.1
CLOSE = 0.5
"""From this rank correlation on two rankings are called alike."""
_ROWS = 256


@dataclass(frozen=True)
class Correlation:
    """A rank correlation in [-1, 1] and its 95 % interval; NaN where one side gives every head the same score."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.2f} [{self.low:.2f}, {self.high:.2f}]"


@dataclass(frozen=True)
class Agreement:
    """How far two scores of the same heads agree.

    Attributes:
        first, second: what they are called.
        heads: number of heads (or groups) that both score.
        spearman: Spearman's rho.
        kendall: Kendall's tau-b.
        top: size k of both tops.
        shared: heads that both have in their top k.
        expected: shared heads of two unrelated rankings, ``k * k / heads``.
        p_value: chance that unrelated rankings share at least so many (hypergeometric).
        unit: ``head`` or ``kv``.
    """

    first: str
    second: str
    heads: int
    spearman: Correlation
    kendall: Correlation
    top: int
    shared: int
    expected: float
    p_value: float
    unit: str = "head"

    def sentence(self) -> str:
        """What it says, in one plain sentence with the numbers."""
        what = "heads" if self.unit == "head" else "KV groups"
        if np.isnan(self.spearman.value):
            return f"{self.first} or {self.second} gives all {self.heads} {what} the same score: nothing to compare."
        return (
            f"{self.first} and {self.second} rank the {self.heads} {what} {self._how()}: rho {self.spearman}; "
            f"{self.shared} of their top {self.top} are shared, {self.expected:.1f} by chance"
            f" (p {_small(self.p_value)})."
        )

    def _how(self) -> str:
        if self.spearman.high < 0:
            return "in opposite order"
        if self.spearman.low <= 0:
            return "with no order in common that can be told from chance"
        return "alike" if self.spearman.value >= CLOSE else "only loosely alike"


def agreement(
    scores: Mapping[str, HeadScores], *, top: int | None = None, resamples: int = RESAMPLES, seed: int = 0
) -> tuple[Agreement, ...]:
    """Every pair of ``scores``, in their order.

    The intervals are percentile bootstraps over *heads* (Efron 1979): heads are drawn with replacement, ``resamples``
    times. So they say how much the correlation hangs on which heads there are, not how well each score was measured.

    Args:
        scores: by name, scores of one model with the same unit; at least two.
        top: how many of the most important heads are compared; None takes a tenth, at least one.
        resamples: bootstrap resamples.
        seed: draws them.

    Raises:
        HeadlensError: fewer than two scores, scores of different heads or units, fewer than four heads, a bad ``top``.
    """
    names = list(scores)
    if len(names) < 2:
        raise HeadlensError("one score has nothing to agree with; choose at least two methods")
    first = scores[names[0]]
    for name in names[1:]:
        if scores[name].unit != first.unit or scores[name].columns() != first.columns():
            raise HeadlensError(f"{names[0]} and {name} score different heads; score one model with one unit")
    flat = {name: scores[name].flat() for name in names}
    return tuple(
        compare(a, flat[a], b, flat[b], top=top, resamples=resamples, seed=seed, unit=first.unit)
        for a, b in combinations(names, 2)
    )


def compare(
    first: str,
    one: np.ndarray,
    second: str,
    other: np.ndarray,
    *,
    top: int | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
    unit: str = "head",
) -> Agreement:
    """One pair: scores ``[heads]`` of the same heads, larger is more important; see :func:`agreement`."""
    both = np.isfinite(one) & np.isfinite(other)
    one, other = one[both], other[both]
    heads = len(one)
    if heads < MIN_HEADS:
        raise HeadlensError(f"{first} and {second} both score {heads} heads; at least {MIN_HEADS} are needed")
    k = max(1, round(TOP_SHARE * heads)) if top is None else top
    if not 1 <= k <= heads:
        raise HeadlensError(f"the top {k} of {heads} heads cannot be compared; take 1 to {heads}")
    drawn = np.random.default_rng(seed).integers(0, heads, size=(resamples, heads))
    rho = Correlation(spearman(one, other), *_interval(_spearman_each(one[drawn], other[drawn])))
    tau = Correlation(_tau(one, other), *_interval(_kendall_each(one, other, drawn)))
    tops = [set(np.argsort(-values, kind="stable")[:k].tolist()) for values in (one, other)]
    shared = len(tops[0] & tops[1])
    p_value = float(hypergeom.sf(shared - 1, heads, k, k))
    return Agreement(first, second, heads, rho, tau, k, shared, k * k / heads, p_value, unit)


def _tau(one: np.ndarray, other: np.ndarray) -> float:
    result: Any = kendalltau(one, other)
    return float(result.statistic)


def _interval(values: np.ndarray) -> tuple[float, float]:
    values = values[np.isfinite(values)]  # a resample of equal scores has no correlation
    if not len(values):
        return float("nan"), float("nan")
    low, high = np.quantile(values, (0.025, 0.975))
    return float(low), float(high)


def _spearman_each(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Spearman's rho of each row, ``[rows, heads]`` to ``[rows]``."""
    a, b = (rankdata(values, axis=1) for values in (one, other))
    a, b = a - a.mean(1, keepdims=True), b - b.mean(1, keepdims=True)
    return _divided((a * b).sum(1), np.sqrt((a**2).sum(1) * (b**2).sum(1)))


def _kendall_each(one: np.ndarray, other: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    """Kendall's tau-b of each resample, ``[resamples]``.

    With w the number of times that each head was drawn, tau-b is ``sum w_i w_j s_ij t_ij`` over the root of
    ``sum w_i w_j s_ij^2 * sum w_i w_j t_ij^2``, where s and t are the signs of the differences (Kendall 1945). That
    counts every pair of the resample, also those of a head with its own copy, which are ties.
    """
    heads = len(one)
    weight = np.stack([np.bincount(row, minlength=heads) for row in drawn]).astype(np.float32)  # [resamples, heads]
    total = np.zeros((3, len(drawn)))
    for start in range(0, heads, _ROWS):
        part = slice(start, start + _ROWS)
        signs = [np.sign(values[part, None] - values[None, :]).astype(np.float32) for values in (one, other)]
        for number, product in enumerate((signs[0] * signs[1], signs[0] ** 2, signs[1] ** 2)):
            total[number] += ((weight[:, part] @ product) * weight).sum(1, dtype=np.float64)
    return _divided(total[0], np.sqrt(total[1] * total[2]))


def _divided(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    return np.divide(above, below, out=np.full(len(above), np.nan), where=below > 0)


def _small(p_value: float) -> str:
    return f"{p_value:.2g}" if p_value >= 1e-4 else "< 0.0001"
