"""How important the heads of each role are, and when they go as a model is pruned (Voita et al. 2019, figure 8).

Every figure stands beside what would happen if the heads went in random order: the k-th of m heads among N then goes as
the k (N + 1) / (m + 1)-th of all, on average, and an exact interval around that follows from counting.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from headlens.errors import HeadlensError
from headlens.heads import Head
from headlens.pruning.order import order
from headlens.pruning.plan import RANKED
from headlens.roles.registry import DETECTORS
from headlens.significance import holm

if TYPE_CHECKING:
    import pandas as pd

    from headlens.pruning.points import Curve
    from headlens.roles.score import RoleScores
    from headlens.scores import HeadScores

LEVEL = 0.95


@dataclass(frozen=True)
class Departure:
    """One head of a role leaves.

    Attributes:
        count: it is the ``count``-th head of its role that goes.
        fraction: share of all heads that are off when it goes.
        expected: that share if heads went in random order, on average.
        low, high: 95 % of random orders lie in between.
    """

    count: int
    fraction: float
    expected: float
    low: float
    high: float


@dataclass(frozen=True)
class Fate:
    """What becomes of the heads of one role.

    Attributes:
        role: name of the role.
        heads: the heads that have it, first to go first.
        departures: when each goes.
        rank: mean share of the other heads that go before one of this role (1: the last to go; by chance 0.5).
        p_value: two-sided, that a random choice of as many heads differs from 0.5 by as much (Mann-Whitney; ties
            counted half), Holm-corrected over the roles.
    """

    role: str
    heads: tuple[Head, ...]
    departures: tuple[Departure, ...]
    rank: float
    p_value: float

    def sentence(self, total: int) -> str:
        """What it says, in one plain sentence."""
        title, last = DETECTORS[self.role].title.lower(), self.departures[-1]
        many = (
            f"{len(self.heads)} heads of the role {title}" if len(self.heads) > 1 else f"one head of the role {title}"
        )
        if self.p_value > 1 - LEVEL:
            when = "at no other time than others that could be told from chance"
        else:
            when = "later than others" if self.rank > 0.5 else "sooner than others"
        leave = "leave" if len(self.heads) > 1 else "leaves"
        return (
            f"The {many} (of {total}) {leave} {when}: the last one when {100 * last.fraction:.0f} % of the heads are "
            f"off; in a random order at {100 * last.expected:.0f} % [{100 * last.low:.0f}, {100 * last.high:.0f}]."
        )


@dataclass(frozen=True)
class Fates:
    """What becomes of the heads of every role that some head has.

    Attributes:
        total: number of heads.
        fates: by role, the longest-lived first.
    """

    total: int
    fates: tuple[Fate, ...]

    def sentences(self) -> list[str]:
        """One for each role."""
        return [fate.sentence(self.total) for fate in self.fates]

    def to_frame(self) -> pd.DataFrame:
        """A row for each head of a role: ``role, count, of, site, layer, head, fraction, expected, low, high``."""
        import pandas as pd

        rows = [
            {
                "role": fate.role,
                "count": departure.count,
                "of": len(fate.heads),
                **vars(head),
                **{name: getattr(departure, name) for name in ("fraction", "expected", "low", "high")},
            }
            for fate in self.fates
            for head, departure in zip(fate.heads, fate.departures, strict=True)
        ]
        columns = ["role", "count", "of", "site", "layer", "head", "fraction", "expected", "low", "high"]
        return pd.DataFrame(rows, columns=columns)

    def remaining(self, fractions: Sequence[float]) -> pd.DataFrame:
        """Heads of each role that are still on: ``role, fraction, heads, expected, low, high``; Voita's figure."""
        import pandas as pd
        from scipy.stats import hypergeom

        rows = []
        for fate in self.fates:
            gone = np.array([departure.fraction for departure in fate.departures])
            for fraction in fractions:
                on = self.total - round(fraction * self.total)
                chance = hypergeom(self.total, len(fate.heads), on)
                low, high = chance.ppf((1 - LEVEL) / 2), chance.isf((1 - LEVEL) / 2)
                left = int((gone > fraction + 1e-9).sum())
                rows.append((fate.role, fraction, left, len(fate.heads) * on / self.total, int(low), int(high)))
        return pd.DataFrame(rows, columns=["role", "fraction", "heads", "expected", "low", "high"])


def by_score(scores: HeadScores) -> dict[Head, float]:
    """When each head goes if the least important go first: the share of heads that are off then."""
    heads = order(scores)
    return {head: (place + 1) / len(heads) for place, head in enumerate(heads)}


def by_curve(curve: Curve, series: str = RANKED) -> dict[Head, float]:
    """When each head goes on a measured curve: the fraction of the first point at which it is off.

    Heads that are on at its last point count as going at the very end (1).
    """
    when = dict.fromkeys(curve.steps.topology.heads(), 1.0)
    for point in reversed(curve.series(series)):
        when |= dict.fromkeys(point.result.off, point.fraction)
    return when


def fates(roles: RoleScores, when: Mapping[Head, float]) -> Fates:
    """Joins roles with the order in which heads go.

    Args:
        roles: which heads pass which threshold; a head may have several roles.
        when: for every head the share of heads that are off when it goes, from :func:`by_score` or :func:`by_curve`.

    Raises:
        HeadlensError: ``when`` speaks of other heads than ``roles``.
    """
    every = list(roles.topology.heads())
    if {*every} != {*when}:
        raise HeadlensError("the roles and the order are about different heads; take both from one model")
    times = np.array([when[head] for head in every])
    steps, sizes = np.unique(times, return_counts=True)
    found: list[Fate] = []
    for role in roles.scores:
        heads = sorted(roles.passing(role), key=lambda head: (when[head], head))
        if not heads:
            continue
        chosen = np.array([head in heads for head in every])
        rank, p_value = _rank(times[chosen], times[~chosen])
        departures = tuple(
            Departure(k + 1, when[head], *_by_chance(steps, np.cumsum(sizes), len(heads), k + 1))
            for k, head in enumerate(heads)
        )
        found.append(Fate(role, tuple(heads), departures, rank, p_value))
    corrected = holm([fate.p_value for fate in found])
    whole = [Fate(f.role, f.heads, f.departures, f.rank, float(p)) for f, p in zip(found, corrected, strict=True)]
    return Fates(len(every), tuple(sorted(whole, key=lambda fate: -fate.rank)))


def _rank(own: np.ndarray, others: np.ndarray) -> tuple[float, float]:
    """Share of pairs in which the other head goes first, and the Mann-Whitney p; (0.5, 1) without others."""
    from scipy.stats import mannwhitneyu

    if not len(others):
        return 0.5, 1.0
    result = mannwhitneyu(own, others, alternative="two-sided")
    return float(result.statistic) / (len(own) * len(others)), float(result.pvalue)


def _by_chance(steps: np.ndarray, gone: np.ndarray, heads: int, count: int) -> tuple[float, float, float]:
    """When the ``count``-th of ``heads`` heads goes in random order: mean, and both ends of the 95 % interval.

    After ``gone`` of all heads have left, the number of the role's among them is hypergeometric.

    Args:
        steps: the fractions at which heads go, ascending.
        gone: heads that are off from each of them on, the last one all.
        heads: number of heads of the role.
        count: which of them.
    """
    from scipy.stats import hypergeom

    reached = hypergeom.sf(count - 1, int(gone[-1]), heads, gone)  # chance that it has gone by each step
    share = np.diff(reached, prepend=0.0)
    tail = (1 - LEVEL) / 2
    low, high = (float(steps[min(int(np.searchsorted(reached, q - 1e-12)), len(steps) - 1)]) for q in (tail, 1 - tail))
    return float(share @ steps), low, high
