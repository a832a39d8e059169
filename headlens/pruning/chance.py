"""Does a ranking beat chance? The ranked order against the range in which one more random order would lie."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.stats import t as student_t

from headlens.pruning.plan import RANDOM, RANKED
from headlens.pruning.points import Curve, Point

Verdict = Literal["better", "worse", "not told apart", "not measured"]
CONFIDENCE = 0.95
RULE = (
    "a random order would lie in mean ± t(0.975, n - 1) * sd * sqrt(1 + 1 / n) of n random orders 95 % of the time "
    "(prediction interval, orders taken as normal); outside of it the ranking is better or worse than chance; the "
    "verdict is about the mean over all steps strictly between none and all"
)


@dataclass(frozen=True)
class Band:
    """The random orders at one count of heads.

    Attributes:
        fraction: heads off.
        mean, low, high: mean, and the 95 % range of one more random order; NaN with fewer than two orders.
        least, most: of the orders themselves.
        ranked: the ranked order there (NaN where it has no such point).
        verdict: of the ranked order there.
        ahead: whether the ranked order beats every single random order there.
    """

    fraction: float
    mean: float
    low: float
    high: float
    least: float
    most: float
    ranked: float
    verdict: Verdict
    ahead: bool


@dataclass(frozen=True)
class Chance:
    """The ranked order against chance, for the figure that the curve is about.

    Attributes:
        bands: by fraction, also for none and all heads off (where nothing can differ).
        overall: verdict on the mean over the steps between none and all.
        ranked, low, high: that mean, and the 95 % range of one more random order's.
        orders: number of random orders.
    """

    bands: tuple[Band, ...]
    overall: Verdict
    ranked: float
    low: float
    high: float
    orders: int

    @property
    def ahead(self) -> list[float]:
        """Fractions at which the ranked order beats every single random order; chance alone does in 1 of n + 1."""
        return [band.fraction for band in self.bands if band.ahead]

    def fractions(self, verdict: Verdict) -> list[float]:
        """Fractions strictly between none and all with that verdict."""
        return [band.fraction for band in self.bands if band.verdict == verdict]


def chance(curve: Curve) -> Chance:
    """Compares the ranked order with the random ones; see ``RULE``."""
    ranked = {p.heads_off: p for p in curve.series(RANKED)}
    orders = [{p.heads_off: p for p in curve.series(RANDOM, seed)} for seed in curve.random_seeds]
    counts = sorted(set().union(*orders)) if orders else []
    bands = tuple(_band(curve, ranked.get(count), [order[count] for order in orders]) for count in counts)
    inside = [c for c in counts if c in ranked and 0 < c < max(counts)]
    if len(orders) < 2 or not inside:
        return Chance(bands, "not measured", math.nan, math.nan, math.nan, len(orders))
    means = [float(np.mean([_value(curve, order[c]) for c in inside])) for order in orders]
    mine = float(np.mean([_value(curve, ranked[c]) for c in inside]))
    low, high = prediction(means)
    return Chance(bands, _verdict(mine, low, high, curve.higher_is_better), mine, low, high, len(orders))


def _value(curve: Curve, point: Point) -> float:
    return point.result.need(curve.figure).value


def _band(curve: Curve, ranked: Point | None, orders: Sequence[Point]) -> Band:
    values = [_value(curve, point) for point in orders]
    low, high = prediction(values)
    mine = math.nan if ranked is None else _value(curve, ranked)
    # All orders are the same set where none or all of the heads are off.
    same = ranked is None or len({point.result.off for point in (ranked, *orders)}) == 1
    verdict: Verdict = "not measured" if same else _verdict(mine, low, high, curve.higher_is_better)
    mean = float(np.mean(values))
    ahead = mine > max(values) if curve.higher_is_better else mine < min(values)  # False for NaN
    return Band(orders[0].fraction, mean, low, high, min(values), max(values), mine, verdict, ahead)


def prediction(values: Sequence[float]) -> tuple[float, float]:
    """Where one more value would lie 95 % of the time, the values being normal; NaN with fewer than two."""
    n = len(values)
    if n < 2:
        return math.nan, math.nan
    reach = float(student_t.ppf((1 + CONFIDENCE) / 2, n - 1) * np.std(values, ddof=1) * math.sqrt(1 + 1 / n))
    mean = float(np.mean(values))
    return mean - reach, mean + reach


def _verdict(value: float, low: float, high: float, higher_is_better: bool) -> Verdict:
    if any(math.isnan(x) for x in (value, low, high)):
        return "not measured"
    if low <= value <= high:
        return "not told apart"
    return "better" if (value > high) == higher_is_better else "worse"


def sentence(curve: Curve, found: Chance) -> str:
    """Whether the ranking beats chance, and where, in plain words with the numbers."""
    method = curve.scores.method
    if found.overall == "not measured":
        return f"Nothing says whether the {method} order beats chance: that takes 2 random orders (--random 2) or more."
    overall = {
        "better": "beats chance",
        "worse": "is worse than chance",
        "not told apart": "cannot be told from chance",
    }[found.overall]
    parts = [
        f"{name} at {percentages(fractions)}"
        for name in ("better", "not told apart", "worse")
        if (fractions := found.fractions(name))
    ]
    where = "the held-out examples" if curve.held_out else "the examples that it was chosen on"
    return (
        f"On {where} the {method} order {overall} (mean {curve.figure} over the steps {found.ranked:.4g}, 95 % range "
        f"of a random order {found.low:.4g} to {found.high:.4g}, from {found.orders}); {', '.join(parts)} of the heads "
        f"off.{_ahead(found)}"
    )


def _ahead(found: Chance) -> str:
    if not found.ahead:
        return ""
    return f" It is ahead of all {found.orders} random orders at {percentages(found.ahead)}."


def percentages(fractions: Sequence[float]) -> str:
    """``10, 20 and 40 %``."""
    words = [f"{100 * fraction:.3g}" for fraction in fractions]
    return (", ".join(words[:-1]) + " and " if len(words) > 1 else "") + words[-1] + " %"
