"""A measured pruning curve: its points, its series, its table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headlens.pruning.figures import FIGURES, HIGHER_IS_BETTER, SetResult
from headlens.pruning.plan import GATES, GREEDY, RANDOM, RANKED, REVERSE, Steps

if TYPE_CHECKING:
    import pandas as pd

    from headlens.scores import HeadScores

SERIES = (RANKED, REVERSE, RANDOM, GREEDY, GATES)


@dataclass(frozen=True)
class Point:
    """One measured point.

    Attributes:
        series, seed, fraction, penalty: see :class:`headlens.pruning.plan.Planned`.
        result: its figures on the reported data.
    """

    series: str
    seed: int | None
    fraction: float
    result: SetResult
    penalty: float | None = None

    @property
    def heads_off(self) -> int:
        """Number of query heads that are off."""
        return len(self.result.off)


@dataclass(frozen=True)
class Curve:
    """A measured curve.

    Attributes:
        points: all series; within one, by fraction.
        figure: the figure that sentences are about (``loss``, ``drift``, ``accuracy`` or ``bleu``).
        steps: what could be chosen.
        scores: the scores of the one-shot order, made with all heads on.
        held_out: whether it is reported on other examples than it was chosen on.
        provenance: how it was made, JSON-ready.
    """

    points: tuple[Point, ...]
    figure: str
    steps: Steps
    scores: HeadScores
    held_out: bool
    provenance: Mapping[str, Any] = field(default_factory=dict)

    @property
    def baseline(self) -> SetResult:
        """The figures with every head on."""
        return next(point.result for point in self.points if not point.heads_off)

    @property
    def higher_is_better(self) -> bool:
        """Of the figure that sentences are about."""
        return self.figure in HIGHER_IS_BETTER

    def series(self, name: str, seed: int | None = None) -> list[Point]:
        """Points of one series (of one seed, if given), by fraction."""
        found = [p for p in self.points if p.series == name and (seed is None or p.seed == seed)]
        return sorted(found, key=lambda point: point.heads_off)

    @property
    def random_seeds(self) -> list[int]:
        """Seeds of the random orders."""
        return sorted({p.seed for p in self.points if p.series == RANDOM and p.seed is not None})

    def to_frame(self) -> pd.DataFrame:
        """One row a point: ``fraction, heads_off, series, seed, loss, ...``; NaN where a figure does not apply.

        Each figure comes with ``_delta`` (against all on, same examples) and ``_sem`` (standard error of that
        difference over examples); ``off`` is the set as HEADS.
        """
        import pandas as pd

        rows = []
        for point in self.points:
            row: dict[str, Any] = {
                "fraction": round(point.fraction, 6),
                "heads_off": point.heads_off,
                "series": point.series,
                "seed": point.seed,
            }
            for name in FIGURES:
                found = point.result.figure(name)
                row[name] = None if found is None else found.value
                row[f"{name}_delta"] = None if found is None else found.delta
                row[f"{name}_sem"] = None if found is None else found.delta_sem
            row["examples"] = point.result.evaluation.examples
            row["penalty"] = point.penalty
            row["off"] = self.steps.topology.format(point.result.off)
            rows.append(row)
        figures = {name + end: float for name in FIGURES for end in ("", "_delta", "_sem")}
        return pd.DataFrame(rows).astype({"seed": "Int64", "penalty": float, **figures})
