"""Marks for answers, each between 0 and 1, and what a wrong number shows."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import combinations

from headlens.errors import DataError
from headlens.interview.quantities import Live, live
from headlens.interview.questions import Choice, ChooseAll, Free, Number, Order

PASS = 0.6
"""Share of a rubric's points that a free answer needs, besides all that must be there."""
_UNITS: Mapping[str, float] = {
    "": 1,
    "k": 1e3,
    "thousand": 1e3,
    "m": 1e6,
    "million": 1e6,
    "g": 1e9,
    "b": 1e9,
    "billion": 1e9,
}
_BYTES: Mapping[str, float] = {
    "": 1,
    "b": 1,
    "byte": 1,
    "bytes": 1,
    **{f"{prefix}b": 1000.0**power for power, prefix in enumerate("kmgt", 1)},
    **{f"{prefix}ib": 1024.0**power for power, prefix in enumerate("kmgt", 1)},
}
_WRITTEN = re.compile(r"^([-+]?\d[\d,_' \u00a0]*(?:\.\d+)?(?:e[-+]?\d+)?)\s*([a-z%]*)\.?$", re.IGNORECASE)
_THOUSANDS = re.compile(r"^[-+]?\d{1,3}(,\d{3})+(?:\.\d+)?(?:e[-+]?\d+)?\s*$", re.IGNORECASE)


@dataclass(frozen=True)
class Mark:
    """How good an answer was.

    Attributes:
        score: 0 to 1.
        right: whether it counts as known.
        note: what the answer shows, where something special can be said.
        counts: False where nobody could have known (a measured tie between all): it is not recorded as right or wrong.
    """

    score: float
    right: bool
    note: str = ""
    counts: bool = True


def mark_choice(question: Choice, picked: int) -> Mark:
    """The number of the picked option."""
    right = picked == question.key
    return Mark(float(right), right)


def mark_all(question: ChooseAll, picked: AbstractSet[int]) -> Mark:
    """Every option is a statement that was called right or wrong; the score is the share of right calls beyond half.

    Ticking everything, or nothing, therefore earns little.
    """
    keys = question.keys
    hits = sum((number in picked) == (number in keys) for number in range(len(question.options)))
    score = max(0.0, 2 * hits / len(question.options) - 1)
    missed, wrong = len(keys - picked), len(set(picked) - keys)
    note = ", ".join(
        part for part in (f"{missed} missed" if missed else "", f"{wrong} wrongly chosen" if wrong else "") if part
    )
    return Mark(1.0 if not note else score, not note, note)


def mark_order(question: Order, order: Sequence[int]) -> Mark:
    """``order`` holds the items' numbers in the learner's order; the score counts pairs beyond half (Kendall's tau)."""
    if sorted(order) != list(range(len(question.items))):
        raise DataError("each item has one place; two have the same")
    pairs = list(combinations(order, 2))
    agreeing = sum(first < second for first, second in pairs)
    right = agreeing == len(pairs)
    return Mark(max(0.0, 2 * agreeing / len(pairs) - 1), right, "" if right else f"{agreeing} of {len(pairs)} pairs")


def mark_number(question: Number, typed: str, truth: Live) -> Mark:
    """A number as typed, in the truth's unit.

    Raises:
        DataError: it is not a number, or in another unit.
    """
    value = read_number(typed, truth.unit)
    if _near(value, truth.value, question.tolerance):
        return Mark(1.0, True)
    for slip in question.slips:
        other = truth.value * slip.factor if slip.factor is not None else _other(question, slip.quantity or "", truth)
        if (
            other is not None
            and not _near(other, truth.value, question.tolerance)
            and _near(value, other, question.tolerance)
        ):
            return Mark(0.0, False, slip.say)
    return Mark(0.0, False)


def _other(question: Number, name: str, truth: Live) -> float | None:
    from headlens.interview.quantities import QUANTITIES, NotHereError

    try:
        options = {key: value for key, value in question.options.items() if key in QUANTITIES[name].options}
        return live(name, truth.shape, options).value
    except NotHereError:
        return None


def _near(value: float, truth: float, tolerance: float) -> bool:
    return abs(value - truth) <= max(tolerance * abs(truth), 1e-9)


def read_number(typed: str, unit: str) -> float:
    """A number as people type it: ``1,024``, ``92 KiB``, ``1.6e6``, ``1.6 million``, ``12 %``.

    Raises:
        DataError: says how to write it.
    """
    found = _WRITTEN.match(typed.strip())
    like = {"bytes": "92160, 92,160 or 90 KiB", "%": "12.5 or 12.5 %"}.get(unit, "1234, 1,234 or 1.2 million")
    if found is None:
        raise DataError(f"write one number, like {like}")
    if "," in found[1] and not _THOUSANDS.match(found[1]):
        raise DataError("write decimals with a point: 12.5, not 12,5")
    plain = re.sub(r"[,_' \u00a0]", "", found[1])
    suffix = found[2].lower()
    known = {**_BYTES} if unit == "bytes" else {**_UNITS, unit.lower(): 1.0}
    if unit in ("MiB", "MB"):
        scale = 2**20 if unit == "MiB" else 1e6
        known = {"": 1.0, **{name: factor / scale for name, factor in _BYTES.items() if name.endswith("b")}}
    if suffix not in known:
        raise DataError(f"{found[2]!r} is not a unit for this; write it like {like}")
    return float(plain) * known[suffix]


def mark_free(question: Free, ticked: AbstractSet[int]) -> Mark:
    """The points that the learner found in their own answer."""
    missing = [point.text for number, point in enumerate(question.points) if point.must and number not in ticked]
    score = len(ticked) / len(question.points)
    right = not missing and score >= PASS
    note = f"Not to be left out: {'; '.join(missing)}." if missing else ""
    return Mark(score, right, note)
