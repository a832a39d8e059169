"""Number words, English to German: numbers from 0 to a million, alone and in short phrases.

In German the ones come before the tens ("twenty-three" is "dreiundzwanzig"), a number below a million is one word, and
the hundreds run into it. So a translator has to look at the right word of the source, not at the next one. German
follows the full forms: "einhundert" and "eintausend" (not "hundert", "tausend"), "einhunderteins" (not
"einhundertundeins"), "null" for 0. English follows American use: no "and" inside a number.

Everything follows from the numbers, so a perfect translator has a loss of 0 and always matches exactly.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from random import Random
from typing import Literal

MILLION = 1_000_000

Part = Literal["train", "score", "held-out"]
"""Which numbers from 1,000 up an example may hold: a model is trained on eight tenths of them and measured on others.
Numbers below 1,000, and the million, are in all parts, since they are what the others are made of."""


def _split(words: str) -> tuple[str, ...]:
    return tuple(words.split())


_ENGLISH_ONES = _split(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
)
_ENGLISH_TENS = _split("- - twenty thirty forty fifty sixty seventy eighty ninety")
_GERMAN_ONES = _split(
    "null eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn siebzehn "
    "achtzehn neunzehn"
)
_GERMAN_TENS = _split("- - zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig")
_ALONE = 0.4
"""Share of examples that are a number and nothing else."""
_MILLIONS = 0.01
"""Share of numbers that are the million; of the others, all counts of digits are equally likely."""

PHRASES = (
    ("from {low} to {high}", "von {low} bis {high}"),
    ("between {low} and {high}", "zwischen {low} und {high}"),
    ("page {low} of {high}", "Seite {low} von {high}"),
    ("{high} is more than {low}", "{high} ist mehr als {low}"),
)
"""What two numbers are put into; the other examples are one number alone."""


@dataclass(frozen=True)
class Pair:
    """One example: the text in English and in German, and the numbers in it."""

    source: str
    target: str
    numbers: tuple[int, ...]


def english(number: int) -> str:
    """An integer in English words, such as ``seven hundred twenty-three``.

    Raises:
        ValueError: below 0 or above a million.
    """
    _check(number)
    if number == MILLION:
        return "one million"
    thousands, rest = divmod(number, 1000)
    words = [*_english_below_1000(thousands), "thousand"] if thousands else []
    words += _english_below_1000(rest) if rest or not thousands else []
    return " ".join(words)


def german(number: int) -> str:
    """An integer in German words, such as ``siebenhundertdreiundzwanzig``; raises ValueError as :func:`english`."""
    _check(number)
    return "eine Million" if number == MILLION else "".join(german_pieces(number))


def german_pieces(number: int) -> list[str]:
    """The parts of which a German number word below a million is made, such as ``sieben hundert drei und zwanzig``."""
    thousands, rest = divmod(number, 1000)
    pieces = [*_german_below_1000(thousands, final=False), "tausend"] if thousands else []
    return pieces + (_german_below_1000(rest, final=True) if rest or not thousands else [])


def part_of(number: int) -> Part | None:
    """The part to which a number belongs; None for those that are in every part."""
    if number < 1000 or number == MILLION:
        return None
    tenth = hashlib.sha256(str(number).encode()).digest()[0] * 10 // 256
    return "score" if tenth == 0 else "held-out" if tenth == 1 else "train"


def pair(rng: Random, part: Part) -> Pair:
    """Draws an example whose numbers from 1,000 up belong to ``part``; all counts of digits are equally likely."""
    if rng.random() < _ALONE:
        number = _number(rng, part)
        return Pair(english(number), german(number), (number,))
    low = high = _number(rng, part)
    while high == low:
        high = _number(rng, part)
    low, high = sorted((low, high))
    source, target = rng.choice(PHRASES)
    return Pair(
        source.format(low=english(low), high=english(high)),
        target.format(low=german(low), high=german(high)),
        (low, high),
    )


def source_words() -> list[str]:
    """Every word of the English side, hyphens apart."""
    words = {word for phrase, _ in PHRASES for word in phrase.split() if "{" not in word}
    return sorted({*words, *_ENGLISH_ONES, *_ENGLISH_TENS[2:], "-", "hundred", "thousand", "million"})


def target_pieces() -> tuple[list[str], list[str]]:
    """Every piece that a word of the German side may begin with, and every piece that may follow in a word."""
    words = {word for _, phrase in PHRASES for word in phrase.split() if "{" not in word}
    inside = {*_GERMAN_ONES[1:], *_GERMAN_TENS[2:], "ein", "und", "hundert", "tausend"}
    return sorted({*words, *_GERMAN_ONES, *_GERMAN_TENS[2:], "ein", "eine", "Million"}), sorted(inside)


def _number(rng: Random, part: Part) -> int:
    if rng.random() < _MILLIONS:
        return MILLION
    digits = rng.randint(1, 6)
    while True:
        number = rng.randrange(0 if digits == 1 else 10 ** (digits - 1), 10**digits)
        if part_of(number) in (None, part):
            return number


def _english_below_1000(number: int) -> list[str]:
    hundreds, rest = divmod(number, 100)
    words = [_ENGLISH_ONES[hundreds], "hundred"] if hundreds else []
    if rest >= 20:
        tens, ones = divmod(rest, 10)
        words.append(_ENGLISH_TENS[tens] + (f"-{_ENGLISH_ONES[ones]}" if ones else ""))
    elif rest or not hundreds:
        words.append(_ENGLISH_ONES[rest])
    return words


def _german_below_1000(number: int, *, final: bool) -> list[str]:
    """Pieces of 0 to 999; a one at the very end of the word is "eins", elsewhere "ein"."""
    hundreds, rest = divmod(number, 100)
    pieces = [_one(hundreds), "hundert"] if hundreds else []
    if rest >= 20:
        tens, ones = divmod(rest, 10)
        pieces += [*([_one(ones), "und"] if ones else []), _GERMAN_TENS[tens]]
    elif rest or not hundreds:
        pieces.append(_GERMAN_ONES[rest] if final else _one(rest))
    return pieces


def _one(number: int) -> str:
    return "ein" if number == 1 else _GERMAN_ONES[number]


def _check(number: int) -> None:
    if not 0 <= number <= MILLION:
        raise ValueError(f"{number}: only numbers from 0 to a million have words here")
