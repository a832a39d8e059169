"""How long runs will take, before they are started."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from headlens.errors import HeadlensError
from headlens.lab.cost import flops_a_step
from headlens.lab.specs import RunSpec

if TYPE_CHECKING:
    from collections.abc import Callable

LONG_SECONDS = 3600.0
"""Work that would take longer than this is done only if somebody says so."""
PROBE_STEPS = 6
PROBE_BATCH = 64
STEP_SECONDS = 0.006
"""Rough cost of a step that does not depend on the model's size, one thread of a machine of the 2020s."""
FLOPS_A_SECOND = 2.0e10
"""Rough rate of one thread at these sizes; a worker measures the real one before long work starts."""


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def rough_step_seconds(spec: RunSpec) -> float:
    """Seconds of one step without having measured anything."""
    return STEP_SECONDS + flops_of_step(spec) / FLOPS_A_SECOND


def flops_of_step(spec: RunSpec) -> int:
    """Floating-point operations of one step of this run's own training."""
    architecture = spec.architecture
    if spec.after is not None:
        architecture = replace(architecture, heads=spec.after.heads)
    return flops_a_step(architecture, spec.task, spec.training.batch)


def total_seconds(specs: Sequence[RunSpec], workers: int, slowness: float = 1.0) -> float:
    """Seconds until all runs have ended.

    Args:
        specs: runs that are still to be done.
        workers: processes at work at once.
        slowness: measured over rough seconds of a step (:func:`probe_spec`).
    """
    each = [slowness * spec.steps * rough_step_seconds(spec) for spec in specs]
    return max(sum(each) / max(1, workers), max(each, default=0.0))


def probe_spec(specs: Sequence[RunSpec]) -> RunSpec:
    """A few steps like those of the largest run, to be timed: short whatever was asked for."""
    largest = max(specs, key=lambda spec: spec.steps * rough_step_seconds(spec))
    training = replace(largest.training, steps=PROBE_STEPS, batch=min(PROBE_BATCH, largest.training.batch))
    return RunSpec(largest.task, largest.architecture, training)


def refuse_long(allowed: bool, how: str) -> Callable[[float], None]:
    """For :func:`headlens.lab.pool.run_all`: refuses long work unless it is ``allowed``; ``how`` allows it."""

    def check(seconds: float) -> None:
        if seconds > LONG_SECONDS and not allowed:
            raise HeadlensError(f"this would take about {words(seconds)}; choose fewer seeds, steps or heads, or {how}")

    return check


def words(seconds: float) -> str:
    """``40 seconds``, ``3 minutes``, ``2.5 hours`` or ``4 days``."""
    for unit, size in (("day", 86400.0), ("hour", 3600.0), ("minute", 60.0)):
        if seconds >= 1.5 * size:
            number = f"{seconds / size:.0f}" if seconds >= 10 * size or unit == "minute" else f"{seconds / size:.1f}"
            return f"{number} {unit}s"
    return f"{max(1, round(seconds))} second{'s' if round(seconds) > 1 else ''}"
