"""Which head sets a curve measures: the ranked order, its reverse, random orders and the greedy reference, in steps.

Everything here is chosen on the data that the scorer uses; nothing looks at the data on which the curve is reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headlens.errors import HeadlensError
from headlens.heads import HeadSet
from headlens.importance import METHODS, Request
from headlens.importance.score import score
from headlens.metrics import METRICS
from headlens.pruning.order import Column, columns_of, count_for, off_set, removable, with_floor

if TYPE_CHECKING:
    from headlens.heads import Topology, Unit
    from headlens.lens import Lens
    from headlens.scores import HeadScores

RANKED, REVERSE, RANDOM, GREEDY, GATES = "ranked", "reverse", "random", "greedy", "gates"
GREEDY_LIMIT = 100
"""Most heads (or groups) for the greedy reference: it measures every one that is left after every removal."""
Scorer = Callable[[HeadSet], "HeadScores"]
"""From the heads that are off to scores of the others."""


@dataclass(frozen=True)
class Planned:
    """One point before it is measured.

    Attributes:
        series: ``ranked``, ``reverse``, ``random``, ``greedy`` or ``gates``.
        seed: of a random order (or of learned gates), else None.
        fraction: heads off over the heads that could be chosen.
        off: the heads.
        penalty: of learned gates, else None.
    """

    series: str
    seed: int | None
    fraction: float
    off: HeadSet
    penalty: float | None = None


@dataclass(frozen=True)
class Steps:
    """What can be chosen, and at which counts the curve stops.

    Attributes:
        topology, unit: of the model.
        sites: the sites whose heads are chosen; None for all.
        floor: heads (or groups) that stay in every layer.
        step: distance of two points, as a fraction.
    """

    topology: Topology
    unit: Unit = "head"
    sites: tuple[str, ...] | None = None
    floor: int = 0
    step: float = 0.1

    def __post_init__(self) -> None:
        if not 0 < self.step <= 1:
            raise HeadlensError(f"--step {self.step:g}: give a fraction above 0 and up to 1, for example 0.1")
        if not self.columns:
            raise HeadlensError("there are no heads to choose from in these sites")

    @property
    def columns(self) -> tuple[Column, ...]:
        """All that can be chosen."""
        return columns_of(self.topology, self.unit, self.sites)

    @property
    def heads(self) -> int:
        """Query heads that can be chosen; fractions are of these."""
        return len(off_set(self.topology, self.columns, self.unit))

    @property
    def counts(self) -> tuple[int, ...]:
        """Columns off at each point, ascending: from none to all (or all that the floor lets go)."""
        total = len(self.columns)
        most = len(with_floor(self.columns, self.floor))
        whole = int(1 / self.step + 1e-9)
        fractions = [min(1.0, k * self.step) for k in range(whole + 1)] + [1.0]
        return tuple(sorted({min(most, count_for(fraction, total)) for fraction in fractions}))

    def planned(self, series: str, off: HeadSet, seed: int | None = None, penalty: float | None = None) -> Planned:
        """A point for a set of heads."""
        return Planned(series, seed, len(off) / self.heads, off, penalty)

    def along(self, series: str, columns: Sequence[Column], seed: int | None = None) -> list[Planned]:
        """The points of one fixed order (least important first, the floor already kept)."""
        return [self.planned(series, off_set(self.topology, columns[:n], self.unit), seed) for n in self.counts]

    def order(self, scores: HeadScores, off: HeadSet | None = None) -> tuple[Column, ...]:
        """Columns that may go, least important first."""
        return removable(scores, floor=self.floor, sites=self.sites, off=off)


def one_shot(steps: Steps, scores: HeadScores) -> list[Planned]:
    """The ranked order and its reverse, from scores made once."""
    free = removable(scores, sites=steps.sites)
    backwards = with_floor(free[::-1], steps.floor)
    return steps.along(RANKED, steps.order(scores)) + steps.along(REVERSE, backwards)


def rescored(steps: Steps, scorer: Scorer, on_step: Callable[[int, int], None] | None = None) -> list[Planned]:
    """The ranked order with scores made anew at every step, with the heads already off switched off.

    Args:
        steps: the counts.
        scorer: called once a step but the last.
        on_step: called with (steps done, steps) before each scoring.
    """
    return [steps.planned(RANKED, off) for off in _rescored(steps, scorer, steps.counts, on_step)]


def greedy(steps: Steps, scorer: Scorer, on_step: Callable[[int, int], None] | None = None) -> list[Planned]:
    """At every step the one head whose removal costs least by ``scorer`` (exact leave-one-out) goes.

    Raises:
        HeadlensError: more than ``GREEDY_LIMIT`` heads.
    """
    check_greedy(steps)
    stops = set(steps.counts)
    sets = _rescored(steps, scorer, range(max(stops) + 1), on_step)
    return [steps.planned(GREEDY, off) for count, off in enumerate(sets) if count in stops]


def check_greedy(steps: Steps) -> None:
    """Raises HeadlensError where the greedy reference would take too long."""
    total = len(steps.columns)
    if total > GREEDY_LIMIT:
        passes = total * (total + 1) // 2
        raise HeadlensError(
            f"the greedy reference would take {passes:,} passes over the score half for {total} heads; it is for up to "
            f"{GREEDY_LIMIT}: choose one site, or re-score at every step instead (--rescore)"
        )


def _rescored(
    steps: Steps, scorer: Scorer, counts: Sequence[int], on_step: Callable[[int, int], None] | None
) -> Iterator[HeadSet]:
    off = HeadSet()
    for number, (before, after) in enumerate(zip([0, *counts], counts, strict=False)):
        if after > before:
            if on_step is not None:
                on_step(number, len(counts))
            # The floor counts what is still on, so a layer at its floor gives nothing more.
            chosen = steps.order(scorer(off), off)[: after - before]
            off = off | off_set(steps.topology, chosen, steps.unit)
        yield off


def random_orders(lens: Lens, steps: Steps, orders: int) -> list[Planned]:
    """Orders by the method ``random`` with the seeds 0, 1, ..."""
    found = []
    for seed in range(orders):
        scores = score(lens, METHODS["random"], Request(METRICS["loss"], unit=steps.unit, seed=seed))
        found += steps.along(RANDOM, steps.order(scores), seed)
    return found
