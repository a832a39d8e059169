"""Invented results whose verdict is known: losses by run, everything else to match."""

from __future__ import annotations

from collections.abc import Callable

from headlens.lab.results import RunResult
from headlens.lab.specs import RunSpec
from headlens.lab.study import Study

Loss = Callable[[RunSpec], float]


def result(spec: RunSpec, loss: float, pruned: float | None = None, random: float = 3.0) -> RunResult:
    heads, distances = spec.architecture.heads, spec.task.distances
    found = distances if loss < 0.5 else distances[:-1]
    attention = tuple(0.9 if d in found else 0.0 for d in range(spec.task.first + 1))
    has = spec.prune_to is not None
    return RunResult(
        spec=spec,
        loss_bits=loss,
        loss_sem=0.01,
        by_distance=tuple(0.0 if d in found else 1.0 for d in distances),
        attention=(attention,) * heads,
        heads=tuple(range(heads)),
        before_bits=None,
        kept=(0, 1, 2, 3) if has else None,
        pruned_loss_bits=pruned if has else None,
        pruned_loss_sem=0.01 if has else None,
        by_size=(),
        random_bits=(random,) * 8 if has else (),
        checkpoints=(),
        curve=((10, 4.0), (20, 1.5)),
        parameters=1000 * heads,
        flops=7,
        seconds=1.5,
    )


def results(study: Study, loss: Loss, pruned: Loss = lambda spec: 0.01) -> dict[RunSpec, RunResult]:
    return {spec: result(spec, loss(spec), pruned(spec)) for spec in study.specs()}


def study(number: int = 12, **changes: object) -> Study:
    return Study(**{"heads": (4, 8), "small": 4, "seeds": tuple(range(number)), **changes})  # type: ignore[arg-type]


def stuck_with_few(spec: RunSpec) -> float:
    """Four heads learn it with every third seed."""
    return 0.01 if spec.architecture.heads > 4 or spec.training.seed % 3 == 0 else 1.0


def never(spec: RunSpec) -> float:
    return 1.0


def always(spec: RunSpec) -> float:
    return 0.01
