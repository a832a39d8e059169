"""What the pages compute: scores of a method as shared background jobs, with partial results while they run."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from headlens.ui import cache, engines, methods, state
from headlens.ui.jobs import Job

if TYPE_CHECKING:
    from headlens.data.encode import EncodedData
    from headlens.heads import Unit
    from headlens.importance import Request
    from headlens.importance.base import Raw
    from headlens.lens import Lens
    from headlens.scores import HeadScores
    from headlens.sweep import UnitResult

CHEAP = ("magnitude", "magnitude-ov", "random")
"""Methods that look at no text: computed in the page's own run."""


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
        signed = self.signed and self.method in methods.SIGNED
        return ("scores", replace(self, ablation=ablation, signed=signed, model=""))

    @property
    def base(self) -> Ask:
        """What is really computed: signed and not normalised; the other views are derived from its contributions."""
        return replace(self, signed=True, normalize="none")


@dataclass(frozen=True)
class Partial:
    """What an exact sweep has so far. Arrays are ``[layer, column]`` by site.

    Attributes:
        values: exact scores of the finished layers, first-order estimates of the same quantity in the others (NaN
            while there is not even that).
        sem: standard errors of ``values``.
        exact: (site, layer) of the finished layers.
        layers: how many there are.
    """

    values: dict[str, np.ndarray] = field(default_factory=dict)
    sem: dict[str, np.ndarray] = field(default_factory=dict)
    exact: frozenset[tuple[str, int]] = frozenset()
    layers: int = 0

    @property
    def layers_done(self) -> int:
        """How many layers are exact."""
        return len(self.exact)


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
    """Scores of a method that costs next to nothing (no data), computed once, in the page's own run."""
    from headlens.importance import method_for
    from headlens.importance.score import score

    key = ("now", replace(ask, data_hash="", metric="", ablation="", signed=False, model=""))
    job = cache.jobs().get(key)
    if job is None:
        scores = score(lens, method_for(ask.method), request_for(lens, data, ask), normalize=_normalize(ask))
        job = cache.jobs().put(key, ask.method, scores)
    return job.result


def score_job(lens: Lens, data: EncodedData, ask: Ask, viewer: str = "", *, implied: bool = False) -> Job:
    """The shared job whose contributions ``ask`` is made of: running, done, or started now.

    ``implied``: the page asks by being drawn; see :meth:`Jobs.start`.
    """
    from headlens.importance import method_for
    from headlens.importance.score import contributions, from_raw

    ask = ask.base

    def work(job: Job) -> HeadScores:
        collect = _Collect(lens, data, ask, job.publish)
        if ask.method == "ablation":
            collect.estimate(lambda *_: job.progress(0, 1))
        method = method_for(ask.method)
        request = request_for(lens, data, ask, on_progress=job.progress, on_unit=collect)
        raw = contributions(lens, method, request)
        return keep(ask, raw, from_raw(lens, method, request, raw))

    title = method_for(ask.method).title
    return cache.jobs().start(ask.key, title, engines.placed(work), viewer or state.viewer(), implied=implied)


def keep(ask: Ask, raw: Raw, scores: HeadScores) -> HeadScores:
    """Keeps contributions, of which other views of the scores are made."""
    cache.jobs().put(("raw", ask.key), ask.method, raw)
    return scores


def scores_of(lens: Lens, data: EncodedData, ask: Ask) -> HeadScores | None:
    """The scores of ``ask``, signed and normalised as it says, if they are computed already.

    Raises:
        HeadlensError: a layer without any effect is to be normalised.
    """
    if ask.method in CHEAP:
        return scores_now(lens, None, ask)
    jobs = cache.jobs()
    done, view = jobs.get(ask.base.key), jobs.get(ask.key)
    if done is None or done.status != "done":
        return None
    if view is None:
        raw = jobs.get(("raw", ask.base.key))
        view = jobs.put(ask.key, ask.method, _derive(lens, data, ask, None if raw is None else raw.result))
    return view.result


def _derive(lens: Lens, data: EncodedData, ask: Ask, raw: Raw | None) -> HeadScores:
    from headlens.importance import method_for
    from headlens.importance.score import contributions, from_raw

    method = method_for(ask.method)
    request = request_for(lens, data, ask.base)
    raw = raw or contributions(lens, method, request)
    if ask.method == "gradient" and not ask.signed:  # the absolute value of each example, as published
        raw = replace(raw, numerator={site: np.abs(array) for site, array in raw.numerator.items()})
    size = ask.method == "ablation" and not ask.signed
    request = replace(request, signed=ask.signed)
    return from_raw(lens, method, request, raw, normalize=_normalize(ask), absolute=size)


def _normalize(ask: Ask) -> Any:
    return "layer" if ask.normalize == "layer" else "none"


class _Collect:
    """Receives finished layers of a sweep and publishes a new :class:`Partial` for each."""

    def __init__(self, lens: Lens, data: EncodedData, ask: Ask, publish: Callable[[Partial], None]) -> None:
        from headlens.importance.base import empty

        self.lens, self.data, self.ask, self.publish = lens, data, ask, publish
        layers = sum(len(site.layers) for site in lens.topology.sites)
        self.partial = Partial(empty(lens, ask.unit), empty(lens, ask.unit), layers=layers)
        self.weight = np.array([example.predicted or 1.0 for example in data.examples], dtype=float)

    def estimate(self, check: Callable[[int, int], None]) -> None:
        """First-order estimates of zero ablation for all heads at once, as first colours (where the metric has any).

        ``check`` is called now and then and may raise to cancel.
        """
        from headlens.importance import method_for
        from headlens.importance.score import contributions, from_raw

        ask = replace(self.ask, method="gradient").base
        request = request_for(self.lens, self.data, ask, on_progress=check)
        if not request.metric.differentiable:
            return
        method = method_for("gradient")
        raw = contributions(self.lens, method, request)
        scores = keep(ask, raw, from_raw(self.lens, method, request, raw))
        cache.jobs().put(ask.key, "gradient", scores)
        self.partial = replace(self.partial, values=dict(scores.values), sem=dict(scores.sem))
        self.publish(self.partial)

    def __call__(self, unit: UnitResult) -> None:
        from headlens.metrics import ratio

        value, sem = ratio(unit.effect, self.weight)
        values = {site: array.copy() for site, array in self.partial.values.items()}
        errors = {site: array.copy() for site, array in self.partial.sem.items()}
        values[unit.site][unit.layer, list(unit.columns)] = value
        errors[unit.site][unit.layer, list(unit.columns)] = sem
        self.partial = Partial(values, errors, self.partial.exact | {(unit.site, unit.layer)}, self.partial.layers)
        self.publish(self.partial)
