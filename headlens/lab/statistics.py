"""Success rates and what can be concluded from them, by rules that are fixed in advance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

CONFIDENCE = 0.95
MIN_RUNS = 2
"""From fewer runs no interval is given."""

Decision = Literal["higher", "lower", "undecided", "one seed"]


@dataclass(frozen=True)
class Rate:
    """Successes among runs that differ by seed alone.

    Attributes:
        successes, runs: counts.
        low, high: exact (Clopper-Pearson) 95 % interval of the success rate; NaN from fewer than two runs.
    """

    successes: int
    runs: int
    low: float
    high: float

    @property
    def value(self) -> float:
        """The rate, 0 to 1; NaN without a run."""
        return self.successes / self.runs if self.runs else math.nan

    def words(self) -> str:
        """``4 of 12 runs (33 %, 95 % interval 10 to 65 %)``."""
        runs = f"{self.successes} of {self.runs} run{'s' if self.runs != 1 else ''}"
        if math.isnan(self.low):
            return f"{runs} (no interval from one seed)" if self.runs == 1 else runs
        return f"{runs} ({100 * self.value:.0f} %, 95 % interval {100 * self.low:.0f} to {100 * self.high:.0f} %)"


def rate(outcomes: Sequence[bool]) -> Rate:
    """The success rate of independent runs and its exact binomial interval."""
    runs, successes = len(outcomes), sum(outcomes)
    if runs < MIN_RUNS:
        return Rate(successes, runs, math.nan, math.nan)
    from scipy.stats import binomtest

    interval = binomtest(successes, runs).proportion_ci(CONFIDENCE, method="exact")
    return Rate(successes, runs, float(interval.low), float(interval.high))


def compare(first: Rate, second: Rate) -> Decision:
    """Whether the first rate is higher or lower than the second; ``undecided`` while their intervals overlap.

    Two 95 % intervals that do not overlap are stricter than a test at 5 %, so this errs on the side of saying nothing.
    """
    if min(first.runs, second.runs) < MIN_RUNS:
        return "one seed"
    if first.low > second.high:
        return "higher"
    if first.high < second.low:
        return "lower"
    return "undecided"


def fisher(first: Rate, second: Rate) -> float:
    """Two-sided p of Fisher's exact test that both rates are equal; NaN without runs."""
    if not first.runs or not second.runs:
        return math.nan
    from scipy.stats import fisher_exact

    table = [[r.successes, r.runs - r.successes] for r in (first, second)]
    return float(fisher_exact(table).pvalue)  # type: ignore[attr-defined]


@dataclass(frozen=True)
class Mean:
    """Mean of one number a seed.

    Attributes:
        value: the mean; NaN without a number.
        sem: its standard error over seeds; NaN from one seed.
        median: the middle one: losses come in whole missing symbols, so a mean often lies where no run does.
    """

    value: float
    sem: float
    median: float


def mean(numbers: Sequence[float]) -> Mean:
    """Mean, standard error and median of independent numbers."""
    count = len(numbers)
    if not count:
        return Mean(math.nan, math.nan, math.nan)
    value = math.fsum(numbers) / count
    ordered = sorted(numbers)
    median = (ordered[(count - 1) // 2] + ordered[count // 2]) / 2
    if count < MIN_RUNS:
        return Mean(value, math.nan, median)
    variance = math.fsum((number - value) ** 2 for number in numbers) / (count - 1)
    return Mean(value, math.sqrt(variance / count), median)


@dataclass(frozen=True)
class Difference:
    """A difference measured seed by seed.

    Attributes:
        mean: of first minus second; NaN without a pair.
        low, high: its 95 % interval by Student's t; NaN from one pair.
        pairs: how many.
    """

    mean: float
    low: float
    high: float
    pairs: int


def paired(first: Sequence[float], second: Sequence[float]) -> Difference:
    """Mean difference of pairs with its interval; the differences are taken as roughly normal."""
    found = mean([a - b for a, b in zip(first, second, strict=True)])
    pairs = len(first)
    if pairs < MIN_RUNS:
        return Difference(found.value, math.nan, math.nan, pairs)
    from scipy.stats import t

    half = float(t.ppf((1 + CONFIDENCE) / 2, pairs - 1)) * found.sem
    return Difference(found.value, found.value - half, found.value + half, pairs)
