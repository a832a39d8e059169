"""Small English: short stories whose next word needs known skills, with a parse and the skill of every word.

Six passages make a story. What a story has established (who is called what, what is where) it may come back to. The
dependency parse follows Universal Dependencies 2 and is known by construction, like the skill that a word needs
(:data:`SKILLS`) and the word that one without the skill may take. Some words need no skill, only luck, such as which
name comes first; the exact probability of every word is known (:mod:`headlens.zoo.grammar`).

    >>> from random import Random
    >>> text(story(Random(0)).words)  # doctest: +SKIP
    'Anna Miller met Leo Potter. Ben counted to three: one two three. Then Leo Potter smiled. ...'
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from random import Random
from types import MappingProxyType

from headlens.zoo.english_passages import TEMPLATES
from headlens.zoo.grammar import Grammar, Story

SKILLS: Mapping[str, str] = MappingProxyType(
    {
        "repeat": "say a list of words again in the same order",
        "recipient": "of two people, name the one who is not giving",
        "agreement": "is or are (was or were) by the number of the subject, whatever stands between",
        "bracket": "close the bracket that was opened last",
        "quote": "close a quotation with the mark that belongs to its first one",
        "count": "count on, and stop at the number that was announced",
        "idiom": "finish a fixed pair of words",
        "recall": "say what was put into a box, a bag, ...",
        "surname": "say the surname of somebody who was introduced before",
    }
)
"""What it takes to get a word right, by the skill's name."""

PASSAGES = 6
LONGEST = 108
"""No story has more words than this."""

GRAMMAR = Grammar(TEMPLATES, PASSAGES)
"""Draws stories and knows the probability of their words."""

_NO_SPACE_BEFORE = frozenset(".:)]”’")
_NO_SPACE_AFTER = frozenset("([“‘")
_WORD = re.compile(r"\w+|[^\w\s]")


def story(rng: Random) -> Story:
    """Draws a story."""
    return GRAMMAR.story(rng)


def annotate(text: str) -> Story:
    """Parse, skills and foils of a text in small English, such as an example of the built-in set.

    Raises:
        ValueError: the text is no whole story.
    """
    return GRAMMAR.annotate(words(text))


def text(words: Iterable[str]) -> str:
    """The words as a person writes them: spaces between them, but not before a full stop or inside brackets."""
    found = ""
    for word in words:
        glued = not found or word in _NO_SPACE_BEFORE or found[-1] in _NO_SPACE_AFTER
        found += word if glued else f" {word}"
    return found


def words(text: str) -> list[str]:
    """The words of a text: the way back from :func:`text`."""
    return _WORD.findall(text)
