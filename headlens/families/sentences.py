"""What the models side by side say, in plain sentences with their numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median

from headlens.families.measures import Measure
from headlens.families.row import Row

Shown = tuple[Row, float, float, float]


def measured(measure: Measure, rows: Sequence[Row]) -> list[Shown]:
    """Rows that have this figure: the row, its value and both ends of its interval."""
    found = [(row, row.findings[measure.name]) for row in rows if measure.name in row.findings]
    return [
        (row, one.value, one.low, one.high)
        for row, one in found
        if one.value is not None and one.low is not None and one.high is not None
    ]


def sentence(measure: Measure, rows: Sequence[Row]) -> str:
    """One sentence on a figure over all models that have it."""
    shown = measured(measure, rows)
    if not shown:
        left = "has cross-attention" if measure.name == "cross" else "has this figure; the table says why"
        return f"{measure.title}: no model that has been measured {left}."
    return _SENTENCES[measure.name](shown)


def _range(shown: Sequence[Shown], write: Callable[[float], str]) -> str:
    """From the lowest to the highest, with the models' names."""
    low, high = (choose(shown, key=lambda one: one[1]) for choose in (min, max))
    if len(shown) == 1:
        return f"{write(low[1])} ({low[0].short})"
    return f"from {write(low[1])} ({low[0].short}) to {write(high[1])} ({high[0].short})"


def _share(value: float) -> str:
    return f"{100 * value:.3g} %"


def _rho(value: float) -> str:
    return f"{value:.2f}"


def _models(count: int) -> str:
    return f"{count} model{'' if count == 1 else 's'}"


def _removable(shown: Sequence[Shown]) -> str:
    limits = {row.metric: _limit(row) for row, *_ in shown}
    least = sum(low >= 0.3 for _, _, low, _ in shown)
    middle = median(value for _, value, _, _ in shown)
    return (
        f"Before the held-out half gets worse by {' or '.join(limits.values())}, {_range(shown, _share)} of the heads "
        f"can go, least important first in steps of a tenth; the median of {_models(len(shown))} is {_share(middle)}, "
        f"and in {least} of {len(shown)} it is surely 30 % or more."
    )


def _limit(row: Row) -> str:
    """``0.1 nats of loss``; a unit that is a formula stands in brackets."""
    if " " in row.unit:
        return f"{row.limit:g} of {row.metric} ({row.unit})"
    return f"{row.limit:g} {row.unit} of {row.metric}"


def _single(shown: Sequence[Shown]) -> str:
    every = sum(value == 1 for _, value, _, _ in shown)
    return (
        f"With their best head alone, one layer at a time, {_range(shown, _share)} of the layers stay within the "
        f"budget; all layers do in {every} of {_models(len(shown))}."
    )


def _methods(shown: Sequence[Shown]) -> str:
    alike = sum(low >= 0.5 for _, _, low, _ in shown)
    return (
        f"Magnitude, gradient and ablation: the least alike pair has a rank correlation {_range(shown, _rho)}; in "
        f"{alike} of {_models(len(shown))} even that pair is surely alike (interval above 0.5)."
    )


def _texts(shown: Sequence[Shown]) -> str:
    parts = []
    for name, what in (("sets", "different text sets"), ("halves", "the two halves of the model's own set")):
        found = [one for one in shown if one[0].texts == name]
        if found:
            alike = sum(low >= 0.5 for _, _, low, _ in found)
            parts.append(
                f"between {what} the least alike ranking has a correlation {_range(found, _rho)}, surely alike in "
                f"{alike} of {_models(len(found))}"
            )
    text = "; ".join(parts)
    return f"{text[:1].upper()}{text[1:]}."


def _cross(shown: Sequence[Shown]) -> str:
    above = [row.short for row, _, low, _ in shown if low > 0]
    below = [row.short for row, _, _, high in shown if high < 0]
    listed = f" ({', '.join(above)})" if above else ""
    return (
        f"Half of the heads of one kind off: cross-attention costs more than the next costly self-attention, surely, "
        f"in {len(above)} of {_models(len(shown))}{listed}, and surely less in {len(below)}; the difference: "
        f"{_range(shown, lambda value: f'{value:+.3g} nats')}."
    )


_SENTENCES: dict[str, Callable[[Sequence[Shown]], str]] = {
    "removable": _removable,
    "single-head": _single,
    "methods": _methods,
    "texts": _texts,
    "cross": _cross,
}
