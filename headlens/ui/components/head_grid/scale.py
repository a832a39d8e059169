"""The colour scale of a head grid: its kind, its limits and how numbers are written."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

ScaleKind = Literal["sequential", "diverging"]


@dataclass(frozen=True)
class Scale:
    """How scores become colours.

    Attributes:
        kind: ``sequential`` goes from ``low`` (pale) to ``high`` (strong) in one hue. ``diverging`` has its neutral
            colour at 0; positive scores (the head helps) are blue, negative ones orange.
        low: score drawn in the first colour; smaller scores get the same colour.
        high: score drawn in the last colour; larger scores get the same colour.
        unit: what the legend writes after the numbers, such as ``nats``; may be empty.
        clipped_low: whether some scores lie below ``low``, so that the legend writes it with "≤".
        clipped_high: whether some scores lie above ``high`` ("≥").

    Raises:
        ValueError: limits that are not finite or not ordered, or a diverging scale that does not contain 0.
    """

    kind: ScaleKind
    low: float
    high: float
    unit: str = ""
    clipped_low: bool = False
    clipped_high: bool = False

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise ValueError(f"scale limits must be finite with low < high, got {self.low} and {self.high}")
        if self.kind == "diverging" and not self.low < 0 < self.high:
            raise ValueError(f"a diverging scale needs low < 0 < high, got {self.low} and {self.high}")


def robust_scale(
    scores: Sequence[NDArray[np.floating[Any]]], kind: ScaleKind, *, unit: str = "", tail: float = 0.01
) -> Scale:
    """Limits that a few extreme heads cannot stretch.

    Args:
        scores: one array ``[layer, head]`` a site, any unit; NaN (pending or gone) is left out.
        kind: see :class:`Scale`. ``diverging`` limits are symmetric around 0, so that equal sizes get equal strength;
            ``sequential`` ones start at 0 when the smallest scores are not negative and near it (a tenth of the
            largest), so that pale means "about nothing".
        unit: written in the legend.
        tail: share of the scores cut off at each end (``sequential``), or of the absolute scores at the
            upper end (``diverging``).

    Returns:
        A scale; with no finite score it is 0 to 1 (or -1 to 1), with one single value it is widened around it.

    Raises:
        ValueError: ``tail`` outside [0, 0.5).
    """
    if not 0 <= tail < 0.5:
        raise ValueError(f"tail must be in [0, 0.5), got {tail}")
    flat = np.concatenate([np.asarray(s, dtype=float).ravel() for s in scores]) if len(scores) else np.empty(0)
    flat = flat[np.isfinite(flat)]
    low, high = _diverging_limits(flat, tail) if kind == "diverging" else _sequential_limits(flat, tail)
    return Scale(kind, low, high, unit, bool((flat < low).any()), bool((flat > high).any()))


def _diverging_limits(flat: NDArray[np.floating[Any]], tail: float) -> tuple[float, float]:
    sizes = np.abs(flat)
    bound = float(np.quantile(sizes, 1 - tail)) if sizes.size else 1.0
    if bound == 0:
        bound = float(sizes.max()) or 1.0
    return -bound, bound


def _sequential_limits(flat: NDArray[np.floating[Any]], tail: float) -> tuple[float, float]:
    if not flat.size:
        return 0.0, 1.0
    low, high = float(np.quantile(flat, tail)), float(np.quantile(flat, 1 - tail))
    if low >= high:
        low, high = float(flat.min()), float(flat.max())
    if flat.min() >= 0 and low < 0.1 * high:
        low = 0.0
    if low >= high:
        room = abs(low) * 0.1 or 1.0
        low, high = low - room, high + room
    return low, high


def format_score(value: float) -> str:
    """Write a score for people and for ``float()``: plain ASCII, no comma, at least three significant digits.

    Args:
        value: a finite score, any unit, signed.

    Returns:
        ``0.0123``, ``-1.2346``, ``12.35``, ``0.00123``, ``4.56e-06``, ``1235``; zero is ``0.0000``.

    Raises:
        ValueError: NaN or infinite.
    """
    if not math.isfinite(value):
        raise ValueError(f"only finite scores can be written, got {value}")
    size = abs(value)
    if 0 < size < 1e-4:
        return f"{value:.2e}"
    if 0 < size < 0.01:
        digits = 2 - math.floor(math.log10(size))
    else:
        digits = 4 if size < 10 else max(0, 3 - math.floor(math.log10(size)))
    return f"{value + 0.0:.{digits}f}"


def format_error(error: float, score: str) -> str:
    """Write a standard error with as many decimals as its score.

    Args:
        error: finite, not negative, same unit as the score.
        score: the score as :func:`format_score` wrote it.

    Returns:
        The error with the score's decimals; by itself (:func:`format_score`) if that would leave only zeros.

    Raises:
        ValueError: NaN or infinite.
    """
    if "e" in score or not math.isfinite(error):
        return format_score(error)
    text = f"{error:.{len(score.partition('.')[2])}f}"
    return text if float(text) or not error else format_score(error)
