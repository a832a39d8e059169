"""Skills along a pruning curve: which one is gone while the loss still looks fine?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from headlens.probes.pairs import CHANCE
from headlens.probes.result import percent

if TYPE_CHECKING:
    import pandas as pd

    from headlens.heads import HeadSet
    from headlens.probes.probe import Prober
    from headlens.probes.result import ProbeResult, SkillResult
    from headlens.probes.skills import Skill
    from headlens.pruning.points import Curve
    from headlens.switches import Ablation

FINE = 0.1
"""A rise of the held-out loss by up to so many nats (about 10 % of the perplexity) is told as fine."""


@dataclass(frozen=True)
class SkillPoint:
    """All skills at one point of a curve.

    Attributes:
        fraction: share of the heads that are off.
        rise: of the held-out loss there, nats.
        result: the skills there, against all heads on.
    """

    fraction: float
    rise: float
    result: ProbeResult


@dataclass(frozen=True)
class SkillCurve:
    """All skills along the ranked order.

    Attributes:
        points: by fraction, the first with all heads on.
    """

    points: tuple[SkillPoint, ...]

    @property
    def skills(self) -> tuple[Skill, ...]:
        """Skills that the model has with all heads on."""
        return tuple(each.skill for each in self.points[0].result.skills if each.known) if self.points else ()

    def of(self, skill: Skill) -> list[tuple[SkillPoint, SkillResult]]:
        """One skill at every point."""
        found = [(point, each) for point in self.points for each in point.result.skills]
        return [(point, each) for point, each in found if each.skill.name == skill.name]

    def verdict(self, point: SkillPoint, each: SkillResult) -> str:
        """What became of a skill; the test is corrected for the number of skills and of points."""
        p_value = point.result.p_values[each.skill.name] * max(1, len(self.points) - 1)
        return each.verdict(min(1.0, p_value))

    def first_lost(self, skill: Skill) -> tuple[SkillPoint, SkillResult] | None:
        """The first point at which a skill is lost: fewer right answers, and not above guessing any more."""
        return next((pair for pair in self.of(skill) if self.verdict(*pair) == "lost"), None)

    def sentence(self) -> str:
        """Which skill goes first, and whether the loss tells."""
        if not self.skills:
            return "With all heads on the model has none of the skills that are asked, so none can be lost."
        gone = [found for skill in self.skills if (found := self.first_lost(skill)) is not None]
        many = f"{len(self.skills)} skill{'s' if len(self.skills) > 1 else ''}"
        if not gone:
            return f"None of {many} is surely lost at any point of the curve; guessing gives {percent(CHANCE)}."
        point, each = min(gone, key=lambda pair: pair[0].fraction)
        fall = f"{percent(each.accuracy_before.value)} -> {percent(each.accuracy.value)}"
        where = f"with {100 * point.fraction:.0f} % of the heads off"
        hidden = [skill.ability for skill in self.skills if (at := self.first_lost(skill)) and at[0].rise <= FINE]
        if point.rise <= FINE:
            more = f" ({len(hidden)} skills go so)" if len(hidden) > 1 else ""
            return (
                f"The loss is fine, but a skill is gone: {where} the held-out loss has changed by {point.rise:+.3g} "
                f"nats only, and it can no longer {each.skill.ability}, {fall}{more}; guessing gives {percent(CHANCE)}."
            )
        return (
            f"The first of {many} to go is to {each.skill.ability}, {fall} {where}, where the held-out loss has "
            f"risen by {point.rise:.3g} nats: here the loss tells; guessing gives {percent(CHANCE)}."
        )

    def to_frame(self) -> pd.DataFrame:
        """A row for each skill and point: ``fraction, loss_rise, skill, accuracy, low, high, loss, loss_sem``."""
        import pandas as pd

        rows = [
            {
                "fraction": point.fraction,
                "loss_rise": point.rise,
                "skill": each.skill.name,
                "accuracy": each.accuracy.value,
                "low": each.accuracy.low,
                "high": each.accuracy.high,
                "loss": each.loss_mean.value,
                "loss_sem": each.loss_mean.sem,
                "verdict": self.verdict(point, each),
            }
            for skill in self.skills
            for point, each in self.of(skill)
        ]
        return pd.DataFrame(rows)


def skills_along(
    prober: Prober,
    points: Sequence[tuple[float, float, HeadSet]],
    *,
    ablation: Ablation = "zero",
    on_progress: Callable[[int, int], None] | None = None,
) -> SkillCurve:
    """Asks about every skill at each point.

    Args:
        prober: the model's skills.
        points: share of heads off, rise of the loss, and the heads, in this order.
        ablation: what replaces ``z``.
        on_progress: called with (done, total) forward passes; may raise to cancel.
    """
    total = prober.passes * (1 + sum(bool(len(off)) for _, _, off in points))
    done = 0

    def step(_done: int, _total: int) -> None:
        nonlocal done
        done += 1
        if on_progress is not None:
            on_progress(min(done, total), total)

    prober.prepare(step)
    asked = [
        SkillPoint(fraction, rise, prober.probe(off, ablation=ablation, on_progress=step))
        for fraction, rise, off in points
    ]
    return SkillCurve(tuple(asked))


def points_of(curve: Curve) -> list[tuple[float, float, HeadSet]]:
    """The ranked points of a measured curve for :func:`skills_along`; the rise is NaN where there is no loss."""
    found = [(point, point.result.figure("loss")) for point in curve.series("ranked")]
    return [(point.fraction, np.nan if loss is None else loss.delta, point.result.off) for point, loss in found]
