"""Do heads back each other up? The effect of switching several off at once against the sum of their single effects."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from headlens.errors import HeadlensError
from headlens.metrics import ratio

if TYPE_CHECKING:
    from headlens.evaluate import Measured
    from headlens.heads import Head

Verdict = Literal["backup", "overlap", "additive", "one head", "unknown"]
ERRORS = 2.0
"""A difference within this many standard errors of zero is called additive."""


@dataclass(frozen=True)
class Redundancy:
    """Joint effect against the sum of single effects; positive effects mean that the heads help.

    Attributes:
        heads: number of heads.
        sum, sum_sem: sum of the single effects and its standard error.
        joint, joint_sem: effect of all of them at once and its standard error.
        difference, difference_sem: joint - sum. Errors are of the differences within each example, since all effects
            are measured on the same ones.
        verdict: ``backup`` (joint > sum), ``overlap`` (joint < sum), ``additive`` (within 2 standard errors),
            ``one head`` (nothing to compare) or ``unknown`` (no standard errors).
        unit: of the effects.
    """

    heads: int
    sum: float
    sum_sem: float
    joint: float
    joint_sem: float
    difference: float
    difference_sem: float
    verdict: Verdict
    unit: str

    def sentence(self) -> str:
        """What it says, in one plain sentence with the numbers."""
        unit = f" {self.unit}" if self.unit else ""
        if self.verdict == "one head":
            return f"One head is off ({self.joint:+.3f}{unit}), so there is nothing to add up."
        start = (
            f"One at a time the {self.heads} heads cost {_with_error(self.sum, self.sum_sem)}{unit} in sum, "
            f"all at once {_with_error(self.joint, self.joint_sem)}{unit}: "
        )
        size = f"{abs(self.difference):.3f}{unit}"
        return (
            start
            + {
                "backup": f"{size} more than the sum, so they back each other up, and single scores hide what they do.",
                "overlap": f"{size} less than the sum, so their damage overlaps: without one, another is missed less.",
                "additive": f"the difference of {self.difference:+.3f} is within {ERRORS:.0f} standard errors "
                f"({self.difference_sem:.3f}), so on this much text they add up as far as can be seen.",
                "unknown": f"a difference of {self.difference:+.3f} without an error bar, so nothing can be concluded.",
            }[self.verdict]
        )


def joint_against_sum(
    single: Mapping[Head, Measured],
    joint: Measured,
    *,
    higher_is_better: bool = False,
    unit: str = "nats",
) -> Redundancy:
    """Compares the effect of a head set with the sum of the effects of its heads.

    Args:
        single: the metric with only that head of the set off.
        joint: the metric with all of them off at once; same metric, ablation and examples.
        higher_is_better: whether the metric is (accuracy); then the joint effect is the fall of the metric.
        unit: of the metric, for the sentence.

    Raises:
        HeadlensError: no head, or a head whose score is not a number.
    """
    if not single:
        raise HeadlensError("no head is off, so there is nothing to add up; switch some off")
    for head, one in single.items():
        if not math.isfinite(one.delta):
            raise HeadlensError(f"{head.site}.{head.label} has no score; score every head of the set first")
    sign = -1.0 if higher_is_better else 1.0
    total = sign * math.fsum(one.delta for one in single.values())
    effect = sign * joint.delta
    changes = [one.changes for one in (*single.values(), joint) if one.changes is not None]
    total_sem = error = np.array(math.nan)
    if joint.weights is not None and len(changes) == len(single) + 1:
        added = np.sum(changes[:-1], axis=0)
        _, total_sem = ratio(added, joint.weights)
        _, error = ratio(changes[-1] - added, joint.weights)
    difference = effect - total
    verdict = _verdict(len(single), difference, float(error))
    return Redundancy(
        len(single), total, float(total_sem), effect, joint.delta_sem, difference, float(error), verdict, unit
    )


def _verdict(heads: int, difference: float, error: float) -> Verdict:
    if heads == 1:
        return "one head"
    if not math.isfinite(error):
        return "unknown"
    if abs(difference) <= ERRORS * error:
        return "additive"
    return "backup" if difference > 0 else "overlap"


def _with_error(value: float, sem: float) -> str:
    return f"{value:.3f} ± {sem:.3f}" if math.isfinite(sem) else f"{value:.3f}"
