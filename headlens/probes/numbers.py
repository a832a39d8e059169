"""Pairs in number words: German says the ones before the tens, so each digit must be fetched from its own place."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import permutations
from random import Random
from types import MappingProxyType

from headlens.probes.pairs import Pair
from headlens.zoo import number_words

PLACES: Mapping[str, str] = MappingProxyType(
    {"thousands": "hundreds", "hundreds": "tens", "tens": "ones", "ones": "hundreds"}
)
"""Each place that is asked for, and the place whose digit is the foil: what one gets who reads the wrong word."""
_ORDER = ("thousands", "hundreds", "tens", "ones")
_DIGITS = "23456789"
"""Each digit has one stem at every place (1 has "ein" and "eins"; 0 is not said)."""


def number_pairs(place: str, count: int, *, seed: int) -> list[Pair]:
    """``count`` numbers of four different digits from 2 to 9, none of which a model of the zoo was trained on.

    Args:
        place: one of :data:`PLACES`.
        count: how many, at most as many as there are (about 160).
        seed: draws them.
    """
    numbers = ["".join(digits) for digits in permutations(_DIGITS, 4)]
    unseen = [number for number in numbers if number_words.part_of(int(number)) == "held-out"]
    chosen = Random(f"probe {place} {seed}").sample(unseen, count)
    return [_pair(number, _ORDER.index(place), _ORDER.index(PLACES[place])) for number in chosen]


def _pair(digits: str, at: int, other: int) -> Pair:
    """The number in words; in the foil the digit at index ``at`` is the one at index ``other``."""
    wrong = digits[:at] + digits[other] + digits[at + 1 :]
    right, foil = (number_words.german(int(each)) for each in (digits, wrong))
    same = next(i for i, (one, two) in enumerate(zip(right, foil, strict=False)) if one != two)
    return Pair(right[:same], right[same:], foil[same:], source=number_words.english(int(digits)))
