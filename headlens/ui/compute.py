"""What the pages compute: scores of a method as shared background jobs, with partial results while they run."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from headlens.ui import cache, state
from headlens.ui.jobs import Job

if TYPE_CHECKING:
    from headlens.data.encode import EncodedData
    from headlens.heads import Unit
    from headlens.importance import Request
    from headlens.lens import Lens
    from headlens.scores import HeadScores
    from headlens.sweep import UnitResult


@dataclass(frozen=True)
class Ask:
    """One score array that a page wants.

    Attributes:
        model, fingerprint, data_hash: of what.
        method, ablation, unit, signed, normalize, metric: which score.
    """

    model: str
    fingerprint: str
    data_hash: str
    method: str
    metric: str
    ablation: str = "zero"
    unit: Unit = "head"
    signed: bool = False
    normalize: str = "none"

    @property
    def key(self) -> Hashable:
        """Equal for equal computations."""
        ablation = self.ablation if self.method == "ablation" else ""
        signed = self.signed and self.method == "gradient"
        return ("scores", replace(self, ablation=ablation, signed=signed, model=""))


@dataclass(frozen=True)
class Partial:
    """What an exact sweep has so far. Arrays are ``[layer, column]`` by site.

    Attributes:
        values: exact scores of the finished layers, first-order estimates of the same quantity in the others (NaN
            while there is not even that).
        sem: standard errors of ``values``.
        layers_done, layers: exact layers, and how many there are.
    """

    values: dict[str, np.ndarray] = field(default_factory=dict)
    sem: dict[str, np.ndarray] = field(default_factory=dict)
    layers_done: int = 0
    layers: int = 0


def request_for(lens: Lens, data: EncodedData | None, ask: Ask, **more: Any) -> Request:
    """The core's request for what a page asks."""
    from headlens.importance import Request
    from headlens.metrics import metric_for
    from headlens.switches import as_ablation

    return Request(
        metric_for(ask.metric, lens.task),
        data,
        ablation=as_ablation(ask.ablation),
        unit=ask.unit,
        signed=ask.signed,
        store=cache.store(),
        **more,
    )


def scores_now(lens: Lens, data: EncodedData | None, ask: Ask) -> HeadScores:
    """Scores of a method that costs next to nothing (no data), computed in the page's own run."""
    from headlens.importance import method_for
    from headlens.importance.score import score

    return score(lens, method_for(ask.method), request_for(lens, data, ask))


def score_job(lens: Lens, data: EncodedData, ask: Ask) -> Job:
    """The shared job for ``ask``: running, done, or started now."""
    from headlens.importance import method_for

    def work(job: Job) -> HeadScores:
        from headlens.importance.score import score

        collect = _Collect(lens, data, ask, job.publish)
        if ask.method == "ablation":
            collect.estimate()
        request = request_for(lens, data, ask, on_progress=job.progress, on_unit=collect)
        return score(lens, method_for(ask.method), request, normalize="layer" if ask.normalize == "layer" else "none")

    return cache.jobs().start(ask.key, f"{method_for(ask.method).title} of {lens.name}", work, state.viewer())


class _Collect:
    """Receives finished layers of a sweep and publishes a new :class:`Partial` for each."""

    def __init__(self, lens: Lens, data: EncodedData, ask: Ask, publish: Callable[[Partial], None]) -> None:
        from headlens.importance.base import empty

        self.lens, self.data, self.ask, self.publish = lens, data, ask, publish
        self.partial = Partial(
            empty(lens, ask.unit), empty(lens, ask.unit), 0, sum(len(site.layers) for site in lens.topology.sites)
        )

    def estimate(self) -> None:
        """First-order estimates of zero ablation for all heads at once, as first colours (where the metric has any)."""
        from headlens.importance import method_for
        from headlens.importance.score import score

        ask = replace(self.ask, method="gradient", signed=True)
        request = request_for(self.lens, self.data, ask)
        if not request.metric.differentiable:
            return
        scores = score(self.lens, method_for("gradient"), request)
        self.partial = replace(self.partial, values=dict(scores.values), sem=dict(scores.sem))
        self.publish(self.partial)

    def __call__(self, unit: UnitResult) -> None:
        from headlens.metrics import ratio

        weight = np.array([example.predicted or 1.0 for example in self.data.examples], dtype=float)
        value, sem = ratio(unit.effect, weight)
        values = {site: array.copy() for site, array in self.partial.values.items()}
        errors = {site: array.copy() for site, array in self.partial.sem.items()}
        values[unit.site][unit.layer, list(unit.columns)] = value
        errors[unit.site][unit.layer, list(unit.columns)] = sem
        self.partial = Partial(values, errors, self.partial.layers_done + 1, self.partial.layers)
        self.publish(self.partial)
