"""What each head does for a skill when it alone is off, with statistics that hold for all heads together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from headlens.significance import ALPHA, LEVEL, holm, interval, mcnemar, mean


@dataclass(frozen=True)
class Effect:
    """What one head (or KV group) does for one skill when it alone is off.

    Attributes:
        label: ``L3H7``.
        site, layer, column: where it is.
        fall: fall of the mean logit difference, nats; positive: it helps.
        sem: standard error of the fall over pairs.
        fall_low, fall_high: interval of the fall that holds for all heads together.
        fall_p: one-sided paired t test, Holm-corrected.
        accuracy: share of right answers with it off.
        lost, gained: pairs that turn wrong, and right.
        loss_low, loss_high: interval of the loss of accuracy (a share) that holds for all heads together.
        loss_p: one-sided exact McNemar test, Holm-corrected.
    """

    label: str
    site: str
    layer: int
    column: int
    fall: float
    sem: float
    fall_low: float
    fall_high: float
    fall_p: float
    accuracy: float
    lost: int
    gained: int
    loss_low: float
    loss_high: float
    loss_p: float

    @property
    def carries(self) -> bool:
        """Whether fewer answers are right without it; see the module."""
        return self.loss_p <= ALPHA

    @property
    def supports(self) -> bool:
        """Whether the logit difference falls without it; see the module."""
        return self.fall_p <= ALPHA


def effects(
    before: np.ndarray, falls: np.ndarray, labels: Sequence[str], places: Sequence[tuple[str, int, int]]
) -> tuple[Effect, ...]:
    """The statistics of every head, largest fall first.

    Args:
        before: logit differences with all heads on, ``[pairs]``.
        falls: how far each falls without each head, ``[pairs, heads]``.
        labels, places: of the heads.
    """
    from scipy.stats import t as student

    pairs, heads = falls.shape
    means = [mean(falls[:, i]) for i in range(heads)]
    after = before[:, None] - falls
    lost = ((before[:, None] > 0) & (after <= 0)).sum(0)
    gained = ((before[:, None] <= 0) & (after > 0)).sum(0)
    fall_p = holm([_t_test(each.value, each.sem, pairs) for each in means])
    loss_p = holm([mcnemar(int(b), int(c), falls=True) for b, c in zip(lost, gained, strict=True)])
    together = 1 - (1 - LEVEL) / heads
    reach = float(student.isf((1 - together) / 2, pairs - 1)) if pairs > 1 else float("nan")
    found = []
    for i in range(heads):
        low, high = _loss(int(lost[i]), int(gained[i]), pairs, together)
        value, sem = means[i].value, means[i].sem
        found.append(
            Effect(
                labels[i],
                *places[i],
                fall=value,
                sem=sem,
                fall_low=value - reach * sem,
                fall_high=value + reach * sem,
                fall_p=float(fall_p[i]),
                accuracy=float((after[:, i] > 0).mean()),
                lost=int(lost[i]),
                gained=int(gained[i]),
                loss_low=low,
                loss_high=high,
                loss_p=float(loss_p[i]),
            )
        )
    return tuple(sorted(found, key=lambda effect: -effect.fall))


def _t_test(value: float, sem: float, pairs: int) -> float:
    """One-sided p of a mean above 0; equal values (no error) are taken at their word."""
    from scipy.stats import t as student

    if pairs < 2:
        return float("nan")
    if sem == 0:
        return 0.0 if value > 0 else 1.0
    return float(student.sf(value / sem, pairs - 1))


def _loss(lost: int, gained: int, pairs: int, level: float) -> tuple[float, float]:
    """Exact interval of the loss of accuracy; as :func:`headlens.significance.change`, with the sign turned."""
    half = 1 - (1 - level) / 2
    (lost_low, lost_high), (gained_low, gained_high) = interval(lost, pairs, half), interval(gained, pairs, half)
    return lost_low - gained_high, lost_high - gained_low
