"""The best that any model can do on stories: what the generator itself would predict.

The loss of the generator's own probabilities on the same words is what a perfect model has there. A finite set can be
kinder or harder than the average, so it is computed on the very examples that a model is measured on.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from headlens.zoo.english import GRAMMAR


@dataclass(frozen=True)
class Best:
    """A perfect prediction of one word.

    Attributes:
        loss: negative natural logarithm of the word's probability.
        right: whether the word is the most probable one (of equally probable ones: its share).
    """

    loss: float
    right: float


def next_words(words: Sequence[str]) -> list[Best]:
    """Perfect predictions of each word of a story from the words before it."""
    found, beliefs = [], GRAMMAR.start()
    for word in words:
        found.append(_best(GRAMMAR.next_words(beliefs), word))
        _, beliefs = GRAMMAR.read(beliefs, word)
    return found


def hidden_words(words: Sequence[str], hidden: Collection[int]) -> list[Best]:
    """Perfect predictions of the words at the indices ``hidden``, in order, from all the others."""
    shown = [None if i in hidden else word for i, word in enumerate(words)]
    guesses = GRAMMAR.hidden_words(shown)
    return [_best(guess, words[i]) for guess, i in zip(guesses, sorted(hidden), strict=True)]


def _best(guess: Mapping[str, float], word: str) -> Best:
    highest = max(guess.values())
    # Sums in another order differ in the last bits, so equal means nearly equal.
    first = [each for each, probability in guess.items() if math.isclose(probability, highest, rel_tol=1e-9)]
    return Best(-math.log(guess[word]), 1 / len(first) if word in first else 0.0)
