"""Prompts to start with. A model of the zoo gets some of its own data, since it knows no other words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headlens.data.select import OWN_SET

if TYPE_CHECKING:
    from headlens.lens import Lens


@dataclass(frozen=True)
class Starts:
    """What one kind of model is asked first.

    Attributes:
        examples: short prompts whose next word needs a skill, by what they show; the first stands there at first.
        masked: with the word "[MASK]" for models that fill gaps.
        source, target: for models that translate.
    """

    examples: Mapping[str, str]
    masked: str
    source: str
    target: str


TEXTS = Starts(
    {
        "Repeat a name": "When Mary and John went to the store, John gave a drink to",
        "Repeat a list": "cherry, lamp, river, violin, stone. Once more: cherry, lamp, river,",
        "Close a quote": 'She looked at the sea and said, "I have never been so happy',
        "A capital": "The capital of France is Paris, and the capital of Italy is",
        "Agreement": "The keys to the old cabinet near the window",
    },
    "The capital of France is [MASK].",
    "This is a small house.",
    "Das ist ein kleines Haus.",
)
"""For models that read ordinary text."""

OWN: Mapping[str, Starts] = {
    "small-english": Starts(
        {
            "Name the other": "Anna and Leo went to the park. Anna gave the ball to",
            "Repeat a list": "Leo read: red box Anna park. Ida repeated: red box",
            "Recall": "The box holds the key and the jar holds the map. Still the box holds the",
            "Agreement": "The keys near the lamp",
            "Count": "Anna counted to four: one two",
            "Close a bracket": "Ben (the doctor [the old one",
        },
        "The keys near the lamp [MASK] old.",
        "",
        "",
    ),
    "number-words": Starts({}, "", "seven hundred twenty-three", "siebenhundertdreiundzwanzig"),
}
"""By the built-in set that a model is made for."""


def starts_of(lens: Lens) -> Starts:
    """What suits the model."""
    return OWN.get(str(getattr(lens.model.config, OWN_SET, "")), TEXTS)
