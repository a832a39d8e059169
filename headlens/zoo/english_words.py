"""The words of small English, by class."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

_CLASSES = {
    "name": "Anna Ben Clara David Emma Felix Greta Hugo Ida Jonas Karin Leo",
    "surname": "Miller Baker Fisher Potter Weaver Mason Cooper Carter",
    "person": "man woman boy girl farmer doctor sailor teacher",
    "thing": "ball coin key lamp ring rope map pen",
    "things": "balls coins keys lamps rings ropes maps pens",
    "container": "box bag drawer basket jar chest bucket cupboard",
    "place": "park market station school garden harbour castle library",
    "adjective": "red old small green heavy broken round new",
    "adverb": "quickly slowly often quietly gladly rarely",
    "transitive": "found saw took wanted liked bought",
    "intransitive": "slept laughed waited smiled danced left",
    "giving": "gave handed showed sold",
    "telling": "sang spoke dreamt",
}

NUMBERS = ("one", "two", "three", "four", "five", "six", "seven", "eight")
"""Counted up to the last but one; the last only serves as a foil, and nobody counts to less than two."""

IDIOMS = (
    ("salt", "pepper"),
    ("bread", "butter"),
    ("thunder", "lightning"),
    ("cat", "mouse"),
    ("knife", "fork"),
    ("hide", "seek"),
    ("rock", "roll"),
    ("needle", "thread"),
)
"""Pairs of words that are always said together, with "and" between them."""

CLASSES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {name: tuple(words.split()) for name, words in _CLASSES.items()}
    | {
        # What a list may hold: words of many kinds, so that repeating it cannot be learnt as a rule about one kind.
        "item": tuple(
            word
            for name in ("name", "thing", "container", "place", "adjective", "adverb")
            for word in _CLASSES[name].split()
        )
    }
)
"""Words of each class that templates pick from."""
