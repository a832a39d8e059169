"""What a computation will take, said on stderr before it starts; and the portions in which it then fits into memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from headlens.cli.output import say

if TYPE_CHECKING:
    from headlens.data.encode import EncodedData
    from headlens.estimates import Estimate
    from headlens.importance import Method, Request
    from headlens.lens import Lens
    from headlens.pruning.curve import CurveSpec

Result = TypeVar("Result")

SWEEPING = "ablation"
"""The method whose work is cut into units that are stored."""


def fitting(compute: Callable[[], Result], batch_size: int | None, scale: float) -> Result:
    """``compute``, in portions that fit where the size was left to HeadLens; a size that was given is kept to."""
    from headlens.batching import within_memory

    return compute() if batch_size is not None else within_memory(compute, scale=scale, say=say)


def foresee(lens: Lens, method: Method, request: Request) -> float:
    """Says how long scoring will take and in how much memory; returns the portions that fit.

    Work that is short is done without a word. Methods that look at every example once or twice are timed only where
    that alone takes long.
    """
    from headlens.estimates import estimate, is_slow, run_trial

    data = request.data
    if data is None or not (method.name == SWEEPING or is_slow(lens, data)):
        return 1.0
    differentiable = request.metric.differentiable
    found = estimate(lens, method, request, run_trial(lens, data, gradient=differentiable))
    _tell(found, method.name)
    return found.scale


def _tell(found: Estimate, name: str, times: int = 1) -> None:
    from headlens import estimates
    from headlens.engine import current

    if found.seconds * times >= estimates.SLOW or found.work > found.free:
        say(found.sentence(name, times, current().capacity()))


def foresee_curve(lens: Lens, spec: CurveSpec, choosing: EncodedData, reported: EncodedData) -> float:
    """The same for a curve: its scores, and one pass over the reported examples for each set of heads."""
    from headlens.estimates import estimate, estimate_sets, run_trial
    from headlens.importance import Request

    request = Request(spec.metric, data=choosing, ablation=spec.ablation, unit=spec.steps.unit)
    trial = run_trial(lens, reported, gradient=spec.metric.differentiable)
    series = 2 + spec.random + spec.greedy
    sets = estimate_sets(lens, trial, 2 + series * max(0, len(spec.steps.counts) - 2))
    _tell(sets, "curve")
    if not spec.method.needs:
        return sets.scale
    scores = estimate(lens, spec.method, request, trial.on(choosing))
    times = max(1, len(spec.steps.counts) - 1) if spec.rescore else 1
    _tell(scores, f"scores by {spec.method.name}" + (f", {times} times" if times > 1 else ""), times)
    if spec.greedy:
        say("estimate: the greedy reference scores every head anew for each head that goes, which takes far longer")
    return min(sets.scale, scores.scale)
