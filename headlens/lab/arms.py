"""Arms of an experiment: runs that differ by seed alone, and what is counted of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from headlens.lab.results import SUCCESS_SYMBOLS, RunResult
from headlens.lab.specs import RunSpec
from headlens.lab.statistics import Mean, Rate, mean, rate

Outcome = Literal["trained", "pruned", "random"]
"""What is counted of a run: the trained model itself, or that model pruned greedily or at random without retraining."""


@dataclass(frozen=True)
class Arm:
    """One way of getting a model, to be run with several seeds.

    Attributes:
        name: short and unique in an experiment.
        title: for people, as the subject of a sentence: ``4 heads from scratch``.
        template: the run; its seed is replaced.
        outcome: what is counted.
    """

    name: str
    title: str
    template: RunSpec
    outcome: Outcome = "trained"

    def runs(self, seeds: Sequence[int]) -> list[RunSpec]:
        """One run a seed."""
        training = self.template.training
        return [replace(self.template, training=replace(training, seed=seed)) for seed in seeds]

    def loss(self, result: RunResult) -> float:
        """The counted loss of one of its runs, in bits."""
        if self.outcome == "trained":
            return result.loss_bits
        if self.outcome == "pruned":
            return math.nan if result.pruned_loss_bits is None else result.pruned_loss_bits
        # One choice a seed, so that outcomes are independent; the others show how much the choice matters.
        return result.random_bits[0] if result.random_bits else math.nan

    @property
    def limit(self) -> float:
        """Loss in bits below which a run has succeeded."""
        return SUCCESS_SYMBOLS * self.template.task.bits_a_distance


@dataclass(frozen=True)
class Tally:
    """What the runs of an arm came to.

    Attributes:
        arm: the arm.
        seeds, losses: of its runs, losses in bits.
        rate: of success.
        mean: of the losses, in bits.
        flops: compute of the training of one such run, that of the model that it starts from included.
        parameters: of one such model; None where no run has ended.
    """

    arm: Arm
    seeds: tuple[int, ...]
    losses: tuple[float, ...]
    rate: Rate
    mean: Mean
    flops: int
    parameters: int | None

    def row(self) -> dict[str, Any]:
        """Plain values for tables and JSON."""
        spec = self.arm.template
        kept = spec.after.heads if spec.after is not None else spec.prune_to if self.arm.outcome != "trained" else None
        return {
            "arm": self.arm.name,
            "title": self.arm.title,
            "heads": spec.architecture.heads,
            "pruned_to": kept if kept != spec.architecture.heads else None,
            "shape": spec.architecture.shape,
            "steps": spec.steps,
            "runs": self.rate.runs,
            "successes": self.rate.successes,
            "rate": self.rate.value,
            "low": self.rate.low,
            "high": self.rate.high,
            "mean_bits": self.mean.value,
            "sem_bits": self.mean.sem,
            "median_bits": self.mean.median,
            "parameters": self.parameters,
            "training_flops": self.flops,
        }


def tally(arm: Arm, seeds: Sequence[int], results: Mapping[RunSpec, RunResult]) -> Tally:
    """Counts the runs of an arm that have ended."""
    from headlens.lab.cost import flops

    ended = [(seed, results[spec]) for seed, spec in zip(seeds, arm.runs(seeds), strict=True) if spec in results]
    losses = tuple(arm.loss(result) for _, result in ended)
    spec = arm.template
    parent = spec.parent
    return Tally(
        arm,
        tuple(seed for seed, _ in ended),
        losses,
        rate([loss < arm.limit for loss in losses]),
        mean(losses),
        flops(spec) + (0 if parent is None else flops(parent)),
        ended[0][1].parameters if ended else None,
    )
