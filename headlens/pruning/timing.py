"""What repeated times say: their spread, the change against another model, and whether it is more than noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

RESAMPLES = 2000


@dataclass(frozen=True)
class Spread:
    """Times of one thing, in seconds: median and quartiles."""

    median: float
    low: float
    high: float


@dataclass(frozen=True)
class Change:
    """Relative change of a time, paired by round: -0.1 is a tenth faster; with its 95 % bootstrap interval."""

    value: float
    low: float
    high: float

    @property
    def clear(self) -> bool:
        """Whether the interval leaves 0 out."""
        return self.low > 0 or self.high < 0


def spread(seconds: Sequence[float]) -> Spread:
    """Median and quartiles."""
    low, median, high = np.quantile(np.asarray(seconds), (0.25, 0.5, 0.75))
    return Spread(float(median), float(low), float(high))


def change(seconds: Sequence[float], reference: Sequence[float], *, seed: int = 0) -> Change:
    """Median of the ratios of each round, less 1, with a percentile bootstrap over rounds (Efron 1979).

    Args:
        seconds: times by round.
        reference: times of the other model in the same rounds.
        seed: draws the resamples.
    """
    ratios = np.asarray(seconds) / np.asarray(reference)
    drawn = np.random.default_rng(seed).integers(0, len(ratios), size=(RESAMPLES, len(ratios)))
    low, high = np.quantile(np.median(ratios[drawn], axis=1), (0.025, 0.975))
    return Change(float(np.median(ratios)) - 1, float(low) - 1, float(high) - 1)


def within_noise(found: Change, noise: Change) -> bool:
    """Whether a change may be noise.

    It may if its interval holds 0, or if it is not larger than what the same model against itself reached in the same
    rounds (the far end of that interval): a machine with other work on it differs from itself.
    """
    return not found.clear or abs(found.value) <= max(abs(noise.low), abs(noise.high))
