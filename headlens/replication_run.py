"""Carries out a comparison of rankings on one model: between sets of texts, along pruning curves, between skills.

The command line and the page do the same here; what is compared and what it means: :mod:`headlens.replication`,
:mod:`headlens.replication_curves`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from headlens.errors import HeadlensError
from headlens.replication import encoded_sets, scores_by_set, sets_for

if TYPE_CHECKING:
    from headlens.data.dataset import Split
    from headlens.data.encode import EncodedData
    from headlens.heads import Unit
    from headlens.importance import Method
    from headlens.lens import Lens
    from headlens.metrics import Metric
    from headlens.replication_curves import CurveReplication
    from headlens.scores import HeadScores
    from headlens.store import Store
    from headlens.switches import Ablation


@dataclass(frozen=True)
class How:
    """What decides the numbers besides model and texts, and who is told.

    Attributes:
        ablation, unit, seed: how heads are switched off.
        limit: the first so many examples of each set, or pairs of each skill; None: all.
        tokens: examples of each set up to so many tokens; None: all.
        store, resume: where finished work is kept, and whether to take it from there.
        on_phase: called with what is at work.
        on_progress: called with (done, total) of it; may raise to cancel.
    """

    ablation: Ablation = "zero"
    unit: Unit = "head"
    seed: int = 0
    limit: int | None = None
    tokens: int | None = None
    store: Store | None = None
    resume: bool = True
    on_phase: Callable[[str], None] | None = None
    on_progress: Callable[[int, int], None] | None = None

    @property
    def passed_on(self) -> dict[str, Any]:
        """What every piece of work is given."""
        names = ("ablation", "seed", "store", "resume", "on_progress")
        return {name: getattr(self, name) for name in names}

    def phase(self, title: str) -> None:
        """Something else is at work."""
        if self.on_phase is not None:
            self.on_phase(title)


class SetRun:
    """Scores and pruning curves on the built-in sets of a model.

    Args:
        lens: the model.
        method: scores the heads.
        metric: of scores and curves.
        how: see there.
        names: sets; None takes all that suit the model (of a model of the zoo both halves of its own).

    Raises:
        HeadlensError: there are fewer than two sets.
    """

    def __init__(
        self, lens: Lens, method: Method, metric: Metric, how: How, names: Sequence[str] | None = None
    ) -> None:
        self.lens, self.method, self.metric, self.how = lens, method, metric, how
        self.chosen = sets_for(lens, "score", names)
        # A model of the zoo is compared between the halves of its set, so each half is halved again for curves.
        self.twins = len({spec for spec, _ in self.chosen.values()}) < len(self.chosen)

    def scores(self, curves: bool = False) -> dict[str, HeadScores]:
        """Scores on each set's score half; with ``curves`` such that :meth:`curves` finds examples of its own."""
        how = self.how
        return scores_by_set(
            self.lens,
            self.method,
            self._data(step=2 if curves and self.twins else 1),
            metric=self.metric,
            unit=how.unit,
            on_phase=lambda name: how.phase(f"{self.method.name} on {name}"),
            **how.passed_on,
        )

    def curves(self, scores: dict[str, HeadScores]) -> CurveReplication:
        """Curves on each set's held-out half: on other examples than the heads were chosen on."""
        from headlens.replication_curves import curve_replication

        how = self.how
        kept = {name: found for name, found in scores.items() if not found.no_signal}
        data = self._data(start=1, step=2) if self.twins else self._data("held-out")
        return curve_replication(
            self.lens,
            kept,
            {name: data[name] for name in kept},
            metric=self.metric.name,
            on_phase=lambda name: how.phase(f"curves on {name}"),
            **how.passed_on,
        )

    def _data(self, split: Split | None = None, start: int = 0, step: int = 1) -> dict[str, EncodedData]:
        """The sets (of another half, if given), every ``step``-th example from ``start`` on."""
        chosen: dict[str, tuple[str, Split]] = {
            name: (spec, split or half) for name, (spec, half) in self.chosen.items()
        }
        found = encoded_sets(self.lens, chosen, limit=self.how.limit, seed=self.how.seed)
        if self.how.tokens is not None:
            from headlens.claims.examples import some

            found = {name: some(data, self.how.tokens, self.lens) for name, data in found.items()}
        return {name: replace(data, examples=data.examples[start::step]) for name, data in found.items()}


def skill_scores(lens: Lens, how: How) -> dict[str, HeadScores]:
    """Leave-one-out scores on the pairs of each skill that the model has, for comparing them with one another.

    Raises:
        HeadlensError: the model says no words.
    """
    from headlens.probes import skills_for
    from headlens.probes.carriers import by_skill, carriers

    found = []
    for skill in skills_for(lens):
        how.phase(f"heads of {lens.name}: {skill.name}")
        try:
            found.append(carriers(lens, skill, unit=how.unit, limit=how.limit, **how.passed_on))
        except HeadlensError:  # no pair of this skill suits the model
            continue
    return dict(by_skill(found))
