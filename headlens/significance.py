"""Exact statistics for few pairs: shares with Clopper-Pearson intervals, paired changes, Holm's correction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

LEVEL = 0.95
ALPHA = 0.05
Z_95 = 1.96
"""Standard errors that a two-sided 95 % interval of a normal estimate reaches to each side."""


@dataclass(frozen=True)
class Share:
    """``right`` of ``total``, with its exact (Clopper-Pearson 1934) interval; NaN without any.

    Attributes:
        right, total: counts.
        low, high: interval of the share.
    """

    right: int
    total: int
    low: float
    high: float

    @property
    def value(self) -> float:
        """The share itself."""
        return self.right / self.total if self.total else float("nan")


@dataclass(frozen=True)
class Mean:
    """A mean over pairs and its standard error (NaN below two pairs)."""

    value: float
    sem: float


@dataclass(frozen=True)
class Change:
    """Right answers before and after, on the same pairs.

    Attributes:
        lost, gained: pairs that were right before and are wrong after, and the other way round.
        total: number of pairs.
        low, high: interval of the change of the share, (gained - lost) / total; see :func:`change`.
        p_value: exact McNemar test, two-sided: chance of so uneven a split of the changed pairs if both were alike.
    """

    lost: int
    gained: int
    total: int
    low: float
    high: float
    p_value: float

    @property
    def value(self) -> float:
        """Change of the share of right answers."""
        return (self.gained - self.lost) / self.total if self.total else float("nan")


def share(right: int, total: int, level: float = LEVEL) -> Share:
    """A share with its exact interval of the level."""
    return Share(right, total, *interval(right, total, level))


def interval(right: int, total: int, level: float = LEVEL) -> tuple[float, float]:
    """Clopper-Pearson: both ends from quantiles of the beta distribution, so it never covers less than it says."""
    from scipy.stats import beta

    if not total:
        return float("nan"), float("nan")
    tail = (1 - level) / 2
    low = 0.0 if right == 0 else float(beta.ppf(tail, right, total - right + 1))
    high = 1.0 if right == total else float(beta.isf(tail, right + 1, total - right))
    return low, high


def mean(values: np.ndarray) -> Mean:
    """Mean of ``values`` ``[pairs]`` and its standard error."""
    if not len(values):
        return Mean(float("nan"), float("nan"))
    sem = float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")
    return Mean(float(values.mean()), sem)


def change(before: np.ndarray, after: np.ndarray, level: float = LEVEL) -> Change:
    """Compares right answers, bool ``[pairs]`` each.

    The interval is exact and on the wide side: the change is the share of gained pairs less that of lost ones, and each
    of the two gets a Clopper-Pearson interval of half the error (Bonferroni), so both hold at once.
    """
    lost, gained, total = int((before & ~after).sum()), int((~before & after).sum()), len(before)
    half = 1 - (1 - level) / 2
    (lost_low, lost_high), (gained_low, gained_high) = interval(lost, total, half), interval(gained, total, half)
    return Change(lost, gained, total, gained_low - lost_high, gained_high - lost_low, mcnemar(lost, gained))


def mcnemar(lost: int, gained: int, *, falls: bool = False) -> float:
    """Exact McNemar test (a sign test of the changed pairs); ``falls``: one-sided, only a loss counts."""
    from scipy.stats import binomtest

    if lost + gained == 0:
        return 1.0
    return float(binomtest(lost, lost + gained, 0.5, "greater" if falls else "two-sided").pvalue)


def holm(p_values: Sequence[float] | np.ndarray) -> np.ndarray:
    """Holm's step-down correction (1979): adjusted p-values, in the order given; NaN stays NaN and does not count."""
    values = np.asarray(p_values, dtype=np.float64)
    adjusted = np.full(len(values), np.nan)
    known = np.flatnonzero(~np.isnan(values))
    order = known[np.argsort(values[known], kind="stable")]
    steps = values[order] * np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(steps)) if len(order) else steps
    return adjusted
