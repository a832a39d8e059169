"""Which share of a change another change is, with its error: what comes back of what was lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from headlens.significance import Z_95

if TYPE_CHECKING:
    from headlens.evaluate import Measured


def share_interval(part: Measured, whole: Measured) -> tuple[float, float]:
    """95 % interval of the ratio of two changes on the same examples (Fieller 1954).

    The examples on which much was lost are those on which much comes back, so the errors of both go together. NaN where
    the whole cannot be told from zero (the interval has no ends then), or with fewer than two examples.
    """
    assert part.changes is not None
    assert whole.changes is not None
    assert part.weights is not None
    count, total = int((part.weights > 0).sum()), part.weights.sum()
    if count < 2:
        return np.nan, np.nan
    own, all_of = part.changes - part.delta * part.weights, whole.changes - whole.delta * part.weights
    scale = count / (count - 1) / total**2
    own_var, all_var, both = (scale * float(a @ b) for a, b in ((own, own), (all_of, all_of), (own, all_of)))
    g = Z_95**2 * all_var / whole.delta**2
    if g >= 1:
        return np.nan, np.nan
    ratio, tilt = part.delta / whole.delta, both / all_var if all_var else 0.0
    spread = own_var - 2 * ratio * both + ratio**2 * all_var - g * (own_var - tilt * both)
    half = Z_95 / abs(whole.delta) * np.sqrt(max(0.0, spread))
    return float((ratio - g * tilt - half) / (1 - g)), float((ratio - g * tilt + half) / (1 - g))
