"""Budgets: how much worse a figure may get, and the largest share of heads that stays within."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from scipy.stats import t as student_t

from headlens.errors import HeadlensError
from headlens.evaluate import Measured
from headlens.pruning.figures import FIGURES, HIGHER_IS_BETTER
from headlens.pruning.plan import GATES, RANDOM, RANKED
from headlens.pruning.points import SERIES, Curve, Point

SURE = 0.95
_TEXT = re.compile(
    rf"^\s*(?P<figure>{'|'.join(FIGURES)})\s*(?P<sign>[+-])\s*(?P<amount>\d+(?:\.\d*)?|\.\d+)\s*(?P<percent>%?)\s*$",
    re.ASCII | re.IGNORECASE,
)


@dataclass(frozen=True)
class Budget:
    """How much worse a figure may get.

    Attributes:
        figure: ``loss``, ``perplexity``, ``accuracy``, ``drift``, ``kl`` or ``bleu``.
        amount: the change for the worse that is allowed, 0 or more: in the figure's unit, or in percent of its value
            with every head on.
        percent: which of the two.
    """

    figure: str
    amount: float
    percent: bool

    def __str__(self) -> str:
        sign = "-" if self.figure in HIGHER_IS_BETTER else "+"
        return f"{self.figure}{sign}{self.amount:g}{'%' if self.percent else ''}"

    def limit(self, baseline: float) -> float:
        """The change for the worse that is allowed, in the figure's unit."""
        return abs(baseline) * self.amount / 100 if self.percent else self.amount


def parse_budget(text: str) -> Budget:
    """Reads ``loss+1%``, ``loss+0.05``, ``perplexity+2``, ``accuracy-0.01``, ``drift+0.05``, ...

    Raises:
        HeadlensError: anything else, a figure that gets better in that direction, percent of what starts at 0.
    """
    match = _TEXT.match(text)
    if match is None:
        raise HeadlensError(
            f"budget {text[:40]!r} is not understood; write loss+1%, loss+0.05, perplexity+2, accuracy-0.01, drift+0.05"
        )
    figure, percent = match["figure"].lower(), bool(match["percent"])
    right = "-" if figure in HIGHER_IS_BETTER else "+"
    if match["sign"] != right:
        raise HeadlensError(f"budget {text!r}: {figure} gets worse as it {_verb(right)}; write {figure}{right}...")
    if percent and figure in ("drift", "kl"):
        raise HeadlensError(f"budget {text!r}: {figure} is 0 with every head on, so no percentage of it is meant")
    return Budget(figure, float(match["amount"]), percent)


def _verb(sign: str) -> str:
    return "falls" if sign == "-" else "rises"


@dataclass(frozen=True)
class Reach:
    """How far one order gets within a budget. Points with no head off do not count.

    Attributes:
        best: the point with most heads off whose estimate is within; None if no point is.
        sure: the same for the one-sided 95 % bound of the estimate over examples; None also where there is no error.
        broken: whether a point with fewer heads off than ``best`` is outside.
        points: how many points have a head off.
    """

    best: Point | None
    sure: Point | None
    broken: bool
    points: int = 1

    @property
    def fraction(self) -> float:
        """Share of heads within the budget by the estimate; 0 for none."""
        return 0.0 if self.best is None else self.best.fraction


@dataclass(frozen=True)
class Within:
    """A budget on a curve.

    Attributes:
        budget: the budget.
        baseline, limit: the figure with every head on, and the change for the worse that is allowed, in its unit.
        reach: of each series but the random ones, by name.
        random: of each random order.
        first: the ranked point with the fewest heads off.
    """

    budget: Budget
    baseline: float
    limit: float
    reach: dict[str, Reach]
    random: tuple[Reach, ...]
    first: Point | None


def within(curve: Curve, budget: Budget) -> Within:
    """How far each order of ``curve`` gets; raises HeadlensError where the model has no such figure."""
    baseline = curve.baseline.need(budget.figure).baseline
    limit = budget.limit(baseline)
    names = [name for name in SERIES if name != RANDOM and curve.series(name)]
    reach = {name: _reach(curve.series(name), budget, limit) for name in names}
    random = tuple(_reach(curve.series(RANDOM, seed), budget, limit) for seed in curve.random_seeds)
    switched = [point for point in curve.series(RANKED) if point.heads_off]
    return Within(budget, baseline, limit, reach, random, switched[0] if switched else None)


def cost(measured: Measured, figure: str) -> float:
    """Change for the worse against all on, in the figure's unit."""
    return -measured.delta if figure in HIGHER_IS_BETTER else measured.delta


def _reach(points: Sequence[Point], budget: Budget, limit: float) -> Reach:
    best = sure = None
    outside: list[int] = []
    switched = [point for point in points if point.heads_off]
    for point in switched:
        measured = point.result.need(budget.figure)
        worse = cost(measured, budget.figure)
        if worse <= limit:
            best = point
            quantile = float(student_t.ppf(SURE, max(1, point.result.evaluation.examples - 1)))
            if worse + quantile * measured.delta_sem <= limit:  # False where there is no standard error
                sure = point
        else:
            outside.append(point.heads_off)
    return Reach(best, sure, best is not None and any(count < best.heads_off for count in outside), len(switched))


def sentence(found: Within) -> str:
    """The largest share of heads within the budget, with its error bar and the random control."""
    reach = found.reach[RANKED]
    head = f"Within {found.budget} (at most {found.limit:.3g} {_worse(found.budget.figure)} than {found.baseline:.4g}):"
    if reach.best is None:
        first = found.first
        costs = "" if first is None else f" already {_share(first)} costs {_cost(first, found)};"
        return f"{head} nothing;{costs} take a smaller --step or a larger budget. {_control(found)}{_gates(found)}"
    text = f"{head} {_share(reach.best)}, for {_cost(reach.best, found)}"
    if reach.sure is None:
        text += "; with its error bar no step is sure to be within"
    elif reach.sure.heads_off < reach.best.heads_off:
        text += f"; with the error bar, only {_share(reach.sure)} is sure to be within"
    if reach.broken:
        text += "; a step with fewer heads off is outside, so take this one with care"
    return f"{text}. {_control(found)}{_gates(found)}"


def _share(point: Point) -> str:
    return f"{100 * point.fraction:.3g} % of the heads ({point.heads_off})"


def _cost(point: Point, found: Within) -> str:
    measured = point.result.need(found.budget.figure)
    error = "" if math.isnan(measured.delta_sem) else f" ± {measured.delta_sem:.2g}"
    return f"{cost(measured, found.budget.figure):.3g}{error}"


def _worse(figure: str) -> str:
    return "lower" if figure in HIGHER_IS_BETTER else "higher"


def _gates(found: Within) -> str:
    """How far the sets of learned gates get, where there are any."""
    reach = found.reach.get(GATES)
    if reach is None:
        return ""
    if not reach.points:
        return " Learned gates closed no head; that takes more steps or a larger penalty."
    if reach.best is None:
        return " Learned gates: no set is within."
    return f" Learned gates: {_share(reach.best)}, for {_cost(reach.best, found)}."


def _control(found: Within) -> str:
    if not found.random:
        return "No random order was measured."
    fractions = sorted(100 * reach.fraction for reach in found.random)
    spread = (
        f"{fractions[0]:.3g} %" if fractions[0] == fractions[-1] else f"{fractions[0]:.3g} to {fractions[-1]:.3g} %"
    )
    return f"{len(fractions)} random order{'s' if len(fractions) > 1 else ''}: {spread}."


def describe(curve: Curve, found: Within) -> dict[str, Any]:
    """One JSON-ready object."""

    def point(at: Point | None) -> dict[str, Any] | None:
        if at is None:
            return None
        measured = at.result.need(found.budget.figure)
        return {
            "fraction": at.fraction,
            "heads_off": at.heads_off,
            "off": curve.steps.topology.format(at.result.off),
            "value": measured.value,
            "delta": measured.delta,
            "delta_sem": measured.delta_sem,
        }

    return {
        "budget": str(found.budget),
        "baseline": found.baseline,
        "limit": found.limit,
        "met": found.reach[RANKED].best is not None,
        "series": {
            name: {"best": point(reach.best), "sure": point(reach.sure), "broken": reach.broken}
            for name, reach in found.reach.items()
        },
        "random_fractions": [reach.fraction for reach in found.random],
        "sentence": sentence(found),
    }
