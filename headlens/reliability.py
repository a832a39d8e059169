"""How much a ranking can be trusted: do two halves of the examples rank the heads alike?"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from scipy.stats import rankdata

SPLITS = 50
MIN_EXAMPLES = 4


def split_half(
    numerator: Mapping[str, np.ndarray],
    denominator: Mapping[str, np.ndarray],
    *,
    seed: int = 0,
    splits: int = SPLITS,
    normalize: bool = False,
    absolute: bool = False,
) -> float | None:
    """Split-half reliability of the ranking, in [-1, 1].

    Spearman's rank correlation between the scores of two random halves of the examples, averaged over ``splits`` random
    halvings and corrected to the full number of examples by Spearman and Brown's formula ``2 r / (1 + r)``.

    Args:
        numerator: by site, contributions ``[examples, layer, head]``.
        denominator: by site ``[examples]``.
        seed: draws the halves, by position: put the examples in an order of their own first (see ``by_content``).
        splits: number of halvings.
        normalize: divide each layer by its l2 norm first, as the scores were.
        absolute: rank by the size of the scores.

    Returns:
        The reliability, or None with fewer than four examples or where all scores are equal.
    """
    if not numerator:
        return None
    examples = len(next(iter(denominator.values())))
    if examples < MIN_EXAMPLES:
        return None
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(splits):
        order = rng.permutation(examples)
        halves = order[: examples // 2], order[examples // 2 :]
        first, second = (_scores(numerator, denominator, half, normalize, absolute) for half in halves)
        r = spearman(first, second)
        if not np.isnan(r):
            found.append(r)
    if not found:
        return None
    mean = float(np.mean(found))
    # Spearman-Brown is meant for r >= 0; below, the ranking is worthless and the raw correlation says so.
    return 2 * mean / (1 + mean) if mean > 0 else mean


def _scores(
    numerator: Mapping[str, np.ndarray],
    denominator: Mapping[str, np.ndarray],
    rows: np.ndarray,
    normalize: bool,
    absolute: bool,
) -> np.ndarray:
    parts = []
    for site, array in numerator.items():
        total = denominator[site][rows].sum()
        values = array[rows].sum(0) / (total if total > 0 else np.nan)
        values = np.abs(values) if absolute else values
        if normalize:
            norms = np.sqrt(np.nansum(values**2, axis=1, keepdims=True))
            values = values / np.where(norms > 0, norms, np.nan)  # a layer without effect in a half has no ranking
        parts.append(values[~np.isnan(array[0])])
    return np.concatenate(parts)


def spearman(first: np.ndarray, second: np.ndarray) -> float:
    """Spearman's rank correlation (mean ranks for ties); NaN where one side is constant."""
    a, b = rankdata(first), rankdata(second)
    a, b = a - a.mean(), b - b.mean()
    scale = np.sqrt((a**2).sum() * (b**2).sum())
    return float((a * b).sum() / scale) if scale > 0 else float("nan")
