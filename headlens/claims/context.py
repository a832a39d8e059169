"""What the claims of one run share: the model, the examples, and work that several of them need, done once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from headlens.claims.base import NotMeasurable

if TYPE_CHECKING:
    from headlens.data.dataset import DataSet
    from headlens.data.encode import EncodedData
    from headlens.evaluate import Measured
    from headlens.heads import HeadSet
    from headlens.lens import Lens
    from headlens.metrics import Metric
    from headlens.pruning.all_but_one import AllButOne
    from headlens.pruning.figures import SetResult
    from headlens.pruning.points import Curve
    from headlens.scores import HeadScores
    from headlens.store import Store
    from headlens.switches import Ablation

STEP, ORDERS = 0.1, 5
METHOD = "gradient"
"""Heads are ranked by it where a claim needs one order: the published score, in three passes."""
SMALL = {"loss": 0.1, "accuracy": 0.02, "drift": 0.05}
"""The change for the worse that is called small: nats (about 10 % of the perplexity), share, 1 - cosine."""
UNITS = {"loss": "nats", "accuracy": "share of predictions", "drift": "1 - cosine"}


@dataclass
class Context:
    """One run on one model.

    Attributes:
        lens: the model.
        score: what heads are chosen on.
        held_out: what is reported.
        limit, tokens, max_tokens: how other sets are cut; ``tokens`` None: not at all.
        seed: for everything random.
        batch_size: examples a forward pass.
        source: the set or file that both halves come from.
        store, resume: where finished work is kept, and whether to take it from there.
        on_progress: called with (done, total) of the current phase; may raise to cancel.
        on_phase: called with the title of each phase.
    """

    lens: Lens
    score: EncodedData
    held_out: EncodedData
    limit: int | None = None
    tokens: int | None = None
    max_tokens: int = 128
    seed: int = 0
    batch_size: int | None = None
    source: str | None = None
    store: Store | None = None
    resume: bool = True
    on_progress: Callable[[int, int], None] | None = None
    on_phase: Callable[[str], None] | None = None

    def __post_init__(self) -> None:
        self._kept: dict[Any, Any] = {}

    @property
    def metric(self) -> Metric:
        """What is measured: the loss, or the drift of a bare encoder."""
        from headlens.metrics import metric_for

        return metric_for(None, self.lens.task)

    @property
    def small(self) -> float:
        """The change for the worse that is called small, in the metric's unit."""
        return SMALL[self.metric.name]

    @property
    def unit(self) -> str:
        """Of the metric."""
        return UNITS[self.metric.name]

    @property
    def heads(self) -> int:
        """Heads of the model."""
        return len(self.lens.topology.heads())

    def phase(self, title: str) -> None:
        """A new stretch of work begins."""
        if self.on_phase is not None:
            self.on_phase(title)

    @property
    def options(self) -> dict[str, Any]:
        """What every measuring function takes."""
        return {"store": self.store, "resume": self.resume, "on_progress": self.on_progress}

    def once(self, key: Any, make: Callable[[], Any]) -> Any:
        """``make()``, the first time; kept for the run."""
        if key not in self._kept:
            self._kept[key] = make()
        return self._kept[key]

    def scores(self, method: str | None = None, ablation: Ablation = "zero") -> HeadScores:
        """Scores of every head on the score half."""
        return self.once(("scores", method, ablation), lambda: self.scores_on(self.score, method, ablation))

    def scores_on(self, data: EncodedData, method: str | None = None, ablation: Ablation = "zero") -> HeadScores:
        """Scores on some data; None takes the run's own order."""
        from headlens.importance import METHODS, Request
        from headlens.importance.score import score

        name = method or self.method
        self.phase(f"scores: {name}" + (f" ({ablation})" if name == "ablation" else ""))
        request = Request(self.metric, data, ablation, seed=self.seed, batch_size=self.batch_size, **self.options)
        return score(self.lens, METHODS[name], request)

    @property
    def method(self) -> str:
        """What ranks heads where one order is needed; drift has no gradient at "all on", so there heads are tried."""
        return METHOD if self.metric.differentiable else "ablation"

    def curve(self, site: str | None = None, orders: int = ORDERS) -> Curve:
        """The pruning curve of the run's order: chosen on the score half, measured on the held-out half."""
        from headlens.importance import METHODS
        from headlens.pruning.curve import CurveSpec, curve
        from headlens.pruning.plan import Steps

        def make() -> Curve:
            steps = Steps(self.lens.topology, sites=None if site is None else (site,), step=STEP)
            spec = CurveSpec(METHODS[self.method], self.metric, steps, random=orders, seed=self.seed)
            return curve(
                self.lens,
                self.score,
                self.held_out,
                spec,
                batch_size=self.batch_size,
                on_phase=self.on_phase,
                **self.options,
            )

        return self.once(("curve", site, orders), make)

    def layers(self) -> AllButOne:
        """Every layer with its best head alone."""
        from headlens.pruning.all_but_one import all_but_one

        return self.once(
            "layers",
            lambda: all_but_one(
                self.lens,
                self.score,
                self.held_out,
                self.metric,
                seed=self.seed,
                batch_size=self.batch_size,
                on_phase=self.on_phase,
                **self.options,
            ),
        )

    def lowest(self, share: float, site: str | None = None) -> HeadSet:
        """The least important ``share`` of the heads (of a site), by the score half."""
        from headlens.pruning.order import columns_of, count_for, lowest

        sites = None if site is None else (site,)
        count = count_for(share, len(columns_of(self.lens.topology, "head", sites)))
        return lowest(self.scores(), count, sites=sites)

    def measured(self, sets: Sequence[HeadSet]) -> dict[HeadSet, Measured]:
        """Each set on the held-out half, against all heads on."""
        return {off: found.evaluation.main for off, found in self.results(sets).items()}

    def results(self, sets: Sequence[HeadSet]) -> dict[HeadSet, SetResult]:
        """The same with all figures."""
        from headlens.pruning.measure import SetMeasure

        measure = SetMeasure(
            self.lens,
            self.held_out,
            metric=self.metric.name,
            seed=self.seed,
            batch_size=self.batch_size,
            **self.options,
        )
        return measure.measure(sets)

    def encoded(self, data: DataSet) -> EncodedData:
        """Other examples, cut as the run's own."""
        from headlens.claims.examples import some
        from headlens.data.encode import encode

        found = encode(self.lens, data, max_tokens=self.max_tokens, seed=self.seed)
        return found if self.tokens is None else some(found, self.tokens, self.lens)

    def need_signal(self, method: str | None = None) -> None:
        """Raises NotMeasurable where the data say nothing, as with an untrained model.

        Equal scores are let through: they rank nothing, but what goes and what it costs is still measured.
        """
        found = self.scores(method)
        if found.no_signal and np.ptp(found.flat()) > 0:
            raise NotMeasurable(found.no_signal)

    def need_several_heads(self, least: int = 8) -> None:
        """Raises NotMeasurable in a model with too few heads for a ranking."""
        if self.heads < least:
            raise NotMeasurable(f"the model has {self.heads} heads; a ranking of fewer than {least} says nothing")
