"""Where everything in a figure goes: plain numbers for the SVG templates. No browser and no plotting library."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

WIDTH = 680
LEFT, RIGHT = 190, 140
ROW = 30
TICKS = 5


@dataclass(frozen=True)
class Dot:
    """One value with its interval.

    Attributes:
        label: in front of it.
        value, low, high: in the unit of the axis; NaN where there is none.
        text: behind it.
        kind: ``full``, ``cut``, ``recovered`` or ``control`` (also a class of the style sheet).
    """

    label: str
    value: float
    low: float
    high: float
    text: str
    kind: str


@dataclass(frozen=True)
class Placed:
    """A dot on the paper: ``x`` of value and interval (None where it is not drawn), ``y`` of its row."""

    dot: Dot
    x: float | None
    x_low: float | None
    x_high: float | None
    y: float


@dataclass(frozen=True)
class Tick:
    """A mark of an axis: where, and what stands there."""

    at: float
    text: str


@dataclass(frozen=True)
class Dots:
    """Values in rows, with their intervals.

    Attributes:
        title, description: for those who cannot see it.
        axis: what the axis shows, with its unit.
        rows, ticks: placed.
        zero: where 0 is, or None.
        width, height, bottom: of the paper; ``bottom`` is the y of the axis.
    """

    title: str
    description: str
    axis: str
    rows: tuple[Placed, ...]
    ticks: tuple[Tick, ...]
    zero: float | None
    width: int
    height: int
    bottom: int


def dots(title: str, axis: str, found: Sequence[Dot], *, zero: bool = False) -> Dots:
    """Places values in rows.

    Args:
        title: of the figure.
        axis: what is shown, with its unit.
        found: the values, from above.
        zero: whether 0 belongs into the picture.
    """
    numbers = [x for dot in found for x in (dot.value, dot.low, dot.high) if math.isfinite(x)] + ([0.0] if zero else [])
    marks = ticks(min(numbers, default=0.0), max(numbers, default=1.0))
    low, high = marks[0], marks[-1]

    def at(value: float) -> float | None:
        if not math.isfinite(value):
            return None
        return round(LEFT + (value - low) / (high - low) * (WIDTH - LEFT - RIGHT), 2)

    rows = tuple(
        Placed(dot, at(dot.value), at(dot.low), at(dot.high), 22 + ROW * number) for number, dot in enumerate(found)
    )
    bottom = 10 + ROW * len(found)
    told = "; ".join(f"{dot.label}: {dot.text}" for dot in found)
    return Dots(
        title,
        told,
        axis,
        rows,
        tuple(Tick(at(mark) or 0.0, _short(mark, marks)) for mark in marks),
        at(0.0) if zero else None,
        WIDTH,
        bottom + 46,
        bottom,
    )


@dataclass(frozen=True)
class Lines:
    """Series over steps.

    Attributes:
        title, description: for those who cannot see it.
        x_axis, y_axis: what the axes show.
        paths: (name, class, points as SVG wants them, y of the last point).
        best: position of the step that was taken, or None.
        x_ticks, y_ticks: placed.
        width, height, left, bottom: of the paper.
    """

    title: str
    description: str
    x_axis: str
    y_axis: str
    paths: tuple[tuple[str, str, str, float], ...]
    best: tuple[float, float] | None
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    width: int
    height: int
    left: int
    bottom: int


def lines(
    title: str,
    x_axis: str,
    y_axis: str,
    series: Mapping[str, tuple[str, Sequence[tuple[float, float]]]],
    best: tuple[float, float] | None = None,
) -> Lines:
    """Places series of (x, y) points; each is given with its class of the style sheet."""
    points = [point for _, found in series.values() for point in found]
    x_marks = ticks(min(x for x, _ in points), max(x for x, _ in points))
    y_marks = ticks(min(y for _, y in points), max(y for _, y in points))
    left, top, right, bottom = 70, 12, WIDTH - 130, 230

    def x_at(x: float) -> float:
        return round(left + (x - x_marks[0]) / (x_marks[-1] - x_marks[0]) * (right - left), 2)

    def y_at(y: float) -> float:
        return round(bottom - (y - y_marks[0]) / (y_marks[-1] - y_marks[0]) * (bottom - top), 2)

    paths = tuple(
        (name, kind, " ".join(f"{x_at(x)},{y_at(y)}" for x, y in found), y_at(found[-1][1]))
        for name, (kind, found) in series.items()
        if found
    )
    told = "; ".join(
        f"{name}: {found[0][1]:.4g} at {found[0][0]:g}, {found[-1][1]:.4g} at {found[-1][0]:g}"
        for name, (_, found) in series.items()
        if found
    )
    return Lines(
        title,
        told,
        x_axis,
        y_axis,
        paths,
        None if best is None else (x_at(best[0]), y_at(best[1])),
        tuple(Tick(x_at(mark), _short(mark, x_marks)) for mark in x_marks),
        tuple(Tick(y_at(mark), _short(mark, y_marks)) for mark in y_marks),
        WIDTH,
        bottom + 48,
        left,
        bottom,
    )


def ticks(low: float, high: float, count: int = TICKS) -> list[float]:
    """Round numbers around ``low`` to ``high``: steps of 1, 2 or 5 times a power of ten; at least two."""
    if high <= low:
        spread = abs(low) * 0.1 or 1.0
        low, high = low - spread, high + spread
    raw = (high - low) / count
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= raw * 0.999)
    first = math.floor(low / step + 1e-9)
    last = math.ceil(high / step - 1e-9)
    return [float(f"{number * step:.10g}") for number in range(first, last + 1)]


def _short(mark: float, marks: Sequence[float]) -> str:
    """A tick in as many digits as tell it from the others."""
    step = marks[1] - marks[0]
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    return f"{mark:,.{digits}f}"
