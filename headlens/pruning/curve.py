"""The pruning curve: what a model loses as more and more heads are off, in the order of any method and of chance.

Chosen on one data set (the score half), reported on another (the held-out half).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from headlens.errors import HeadlensError
from headlens.heads import HeadSet
from headlens.importance import METHODS, Request
from headlens.importance.score import score
from headlens.pruning.figures import SetResult
from headlens.pruning.measure import SetMeasure
from headlens.pruning.plan import (
    GATES,
    REVERSE,
    Planned,
    Steps,
    check_greedy,
    greedy,
    one_shot,
    random_orders,
    rescored,
)
from headlens.pruning.points import Curve, Point
from headlens.pruning.rescore import score_without

if TYPE_CHECKING:
    from headlens.data.encode import EncodedData
    from headlens.importance import Method
    from headlens.importance.score import Normalize
    from headlens.lens import Lens
    from headlens.metrics import Metric
    from headlens.pruning.bleu_points import BleuMeasure
    from headlens.pruning.learned_gates import LearnedGates
    from headlens.scores import HeadScores
    from headlens.store import Store
    from headlens.switches import Ablation


@dataclass(frozen=True)
class CurveSpec:
    """What curve is wanted.

    Attributes:
        method: how heads are ordered.
        metric: what the method scores and what the curve's sentences are about.
        steps: which heads can be chosen, and at which counts.
        rescore: make the scores anew at every step.
        random: number of random orders.
        greedy: also the greedy reference.
        ablation: what replaces the output of a head that is off, in scores and in the curve.
        signed, normalize: as for :func:`headlens.importance.score.score`.
        seed: for the scores and for ``resample``.
    """

    method: Method
    metric: Metric
    steps: Steps
    rescore: bool = False
    random: int = 5
    greedy: bool = False
    ablation: Ablation = "zero"
    signed: bool = False
    normalize: Normalize = "none"
    seed: int = 0

    def __post_init__(self) -> None:
        if self.random < 0:
            raise HeadlensError(f"--random {self.random}: give 0 or more random orders")
        if self.steps.counts == (0,):
            raise HeadlensError(f"a floor of {self.steps.floor} keeps every head on; give a smaller --floor")
        if self.greedy:
            check_greedy(self.steps)


def curve(
    lens: Lens,
    score_data: EncodedData | None,
    report_data: EncodedData,
    spec: CurveSpec,
    *,
    gates: Sequence[LearnedGates] = (),
    bleu: BleuMeasure | None = None,
    batch_size: int | None = None,
    store: Store | None = None,
    resume: bool = True,
    on_progress: Callable[[int, int], None] | None = None,
    on_phase: Callable[[str], None] | None = None,
    on_point: Callable[[Point], None] | None = None,
) -> Curve:
    """Orders the heads on ``score_data`` and measures the orders on ``report_data``.

    A point costs one pass over ``report_data``; sets that series share (none off, all off) are measured once.

    Args:
        lens: the model.
        score_data: what heads are chosen on; None only for methods that need no data.
        report_data: what is reported.
        spec: what is wanted.
        gates: sets that learned gates chose; points of their own.
        bleu: measures BLEU besides, and the curve is then about it.
        batch_size: examples a forward pass.
        store, resume: where finished points are kept, and whether to take them from there.
        on_progress: called with (done, total) of the current phase; may raise to cancel.
        on_phase: called with the title of each phase.
        on_point: called with each finished point (without BLEU).

    Raises:
        HeadlensError: a method or metric that does not apply.
    """
    phase = on_phase or (lambda _: None)
    request = Request(
        metric=spec.metric,
        data=score_data,
        ablation=spec.ablation,
        unit=spec.steps.unit,
        signed=spec.signed,
        seed=spec.seed,
        store=store,
        resume=resume,
        on_progress=on_progress,
    )
    phase(f"scores: {spec.method.name}")
    scores = score(lens, spec.method, request, normalize=spec.normalize)
    planned = _chosen(lens, spec, request, scores, phase)
    planned += [spec.steps.planned(GATES, found.off, found.seed, found.spec.penalty) for found in gates]
    phase("the curve")
    measure = SetMeasure(
        lens,
        report_data,
        metric=spec.metric.name,
        ablation=spec.ablation,
        seed=spec.seed,
        batch_size=batch_size,
        store=store,
        resume=resume,
        on_progress=on_progress,
    )
    results = measure.measure([point.off for point in planned], _announcer(planned, on_point))
    if bleu is not None:
        phase("BLEU of the curve")
        found = bleu.measure(results)
        results = {off: replace(result, bleu=found[off]) for off, result in results.items()}
    points = tuple(Point(p.series, p.seed, p.fraction, results[p.off], p.penalty) for p in planned)
    held_out = score_data is None or score_data.hash != report_data.hash
    facts = _provenance(spec, scores, report_data, measure, held_out)
    figure = "bleu" if bleu is not None else spec.metric.name
    return Curve(points, figure, spec.steps, scores, held_out, facts)


def _chosen(
    lens: Lens, spec: CurveSpec, request: Request, scores: HeadScores, phase: Callable[[str], None]
) -> list[Planned]:
    steps = spec.steps
    planned = one_shot(steps, scores)
    if spec.rescore and spec.method.needs:

        def again(off: HeadSet) -> HeadScores:
            if not len(off):
                return scores
            return score_without(lens, spec.method, request, off, normalize=spec.normalize)

        titles = lambda done, total: phase(f"scores: {spec.method.name}, step {done} of {total - 1}")  # noqa: E731
        planned = rescored(steps, again, titles) + [p for p in planned if p.series == REVERSE]
    planned += random_orders(lens, steps, spec.random)
    if spec.greedy:

        def exact(off: HeadSet) -> HeadScores:
            return score_without(lens, METHODS["ablation"], request, off)

        planned += greedy(steps, exact, lambda done, total: phase(f"greedy: head {done} of {total - 1}"))
    return planned


def _announcer(
    planned: Sequence[Planned], on_point: Callable[[Point], None] | None
) -> Callable[[SetResult], None] | None:
    if on_point is None:
        return None

    def announce(result: SetResult) -> None:
        for point in planned:
            if point.off == result.off:
                on_point(Point(point.series, point.seed, point.fraction, result, point.penalty))

    return announce


def _provenance(
    spec: CurveSpec, scores: HeadScores, data: EncodedData, measure: SetMeasure, held_out: bool
) -> dict[str, Any]:
    return {
        "scores": scores.describe(),
        "rescored": spec.rescore and bool(spec.method.needs),
        "step": spec.steps.step,
        "floor": spec.steps.floor,
        "sites": None if spec.steps.sites is None else list(spec.steps.sites),
        "unit": spec.steps.unit,
        "random_orders": spec.random,
        "ablation": spec.ablation,
        "data": data.name,
        "data_hash": data.hash,
        "split": data.split,
        "held_out": held_out,
        "examples": len(data),
        "predictions": data.tokens,
        "seed": spec.seed,
        "passes": round(measure.passes, 3),
        "seconds": round(measure.seconds, 3),
        "cached": measure.cached,
    }
