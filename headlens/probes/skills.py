"""The skills that a model can be asked about. A new one is a file of pairs, or a class here, and a line in ``SKILLS``.

* Texts: pairs in running English, written for this project (``assets/probes``).
* ``induction``: random tokens that come again, made for each tokenizer.
* ``story-...``: the skills of small English (:mod:`headlens.zoo.english`), for the models of the zoo that know it.
* ``number-...``: which digit goes where when number words are translated (:mod:`headlens.zoo.number_words`).
"""

from __future__ import annotations

import difflib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from headlens.data.select import OWN_SET
from headlens.errors import HeadlensError
from headlens.probes.encode import TASKS, rows_of
from headlens.probes.numbers import PLACES, number_pairs
from headlens.probes.pairs import Pair, PairData, Rows, pair_data
from headlens.probes.repeats import repeat_rows
from headlens.probes.stories import story_pairs
from headlens.probes.texts import index, read_pairs
from headlens.zoo import english

if TYPE_CHECKING:
    from headlens.lens import Lens

MADE_PAIRS = 64
"""Pairs of a skill that is made by a program."""


_STORY_ABILITIES = {
    "repeat": "say a list of words again in order",
    "recipient": "name the one of two people who is given something",
    "agreement": "make the verb agree with its subject",
    "bracket": "close the bracket that was opened last",
    "quote": "close a quotation with its own mark",
    "count": "count on to the number that was announced",
    "idiom": "finish a fixed pair of words",
    "recall": "recall what was put where",
    "surname": "recall a surname",
}
"""What reads well after "it can"; a skill that is not here keeps the generator's words."""


@dataclass(frozen=True)
class Skill(ABC):
    """One skill.

    Attributes:
        name: as on the command line.
        title: as shown.
        ability: what a model that has it can do, after "it can": "copy a repeated sequence".
        description: how it is asked.
    """

    name: str
    title: str
    ability: str
    description: str

    @abstractmethod
    def rows(self, lens: Lens, *, seed: int = 0) -> Rows:
        """The pairs as ``lens`` takes them; ``seed`` draws what is made, texts do not depend on it."""

    def data(self, lens: Lens, *, limit: int | None = None, seed: int = 0) -> PairData:
        """The pairs as data; ``limit`` takes only the first so many usable ones.

        Raises:
            HeadlensError: the model says no words, or a limit below 1.
        """
        if limit is not None and limit < 1:
            raise HeadlensError(f"a limit of {limit} pairs leaves nothing to ask; give 1 or more")
        found = self.rows(lens, seed=seed)
        return pair_data(lens, self.name, Rows(found.rows[:limit], found.dropped))


@dataclass(frozen=True)
class TextSkill(Skill):
    """Pairs that are there; the default for a skill of one's own."""

    pairs: tuple[Pair, ...] = field(default=(), repr=False)

    def rows(self, lens: Lens, *, seed: int = 0) -> Rows:  # noqa: ARG002
        """See the base class."""
        return rows_of(lens, self.pairs)


@dataclass(frozen=True)
class FileSkill(Skill):
    """Pairs of a file in ``assets/probes``, read when they are needed."""

    file: str = ""

    def rows(self, lens: Lens, *, seed: int = 0) -> Rows:  # noqa: ARG002
        """See the base class."""
        return rows_of(lens, read_pairs(self.file))


@dataclass(frozen=True)
class RepeatSkill(Skill):
    """Random tokens, repeated."""

    def rows(self, lens: Lens, *, seed: int = 0) -> Rows:
        """See the base class."""
        return repeat_rows(lens, MADE_PAIRS, seed=seed)


@dataclass(frozen=True)
class StorySkill(Skill):
    """A skill of small English."""

    skill: str = ""

    def rows(self, lens: Lens, *, seed: int = 0) -> Rows:
        """See the base class."""
        return rows_of(lens, story_pairs(self.skill, MADE_PAIRS, seed=seed))


@dataclass(frozen=True)
class NumberSkill(Skill):
    """A place of a number word."""

    place: str = ""

    def rows(self, lens: Lens, *, seed: int = 0) -> Rows:
        """See the base class."""
        return rows_of(lens, number_pairs(self.place, MADE_PAIRS, seed=seed))


def _skills() -> Mapping[str, Skill]:
    found: list[Skill] = [
        RepeatSkill(
            "induction",
            "Repeating a sequence",
            "copy a repeated sequence",
            "random tokens come a second time; foil: another token of the sequence",
        )
    ]
    found += [
        FileSkill(entry.name, entry.title, entry.ability, entry.description, file=entry.file) for entry in index()
    ]
    found += [
        StorySkill(
            f"story-{name}", f"Stories: {name}", _STORY_ABILITIES.get(name, what), f"small English: {what}", skill=name
        )
        for name, what in english.SKILLS.items()
    ]
    found += [
        NumberSkill(
            f"number-{place}",
            f"Number words: {place}",
            f"put the {place} of a number in place",
            f"number words to German; foil: the digit of the {foil} at the place of the {place}",
            place=place,
        )
        for place, foil in PLACES.items()
    ]
    return MappingProxyType({skill.name: skill for skill in found})


SKILLS: Mapping[str, Skill] = _skills()
"""All skills by name."""


def skills_for(lens: Lens) -> tuple[Skill, ...]:
    """The skills to ask a model about unless told otherwise.

    Models of the zoo say which data they are made for and get the skills of these; other models that write or fill gaps
    get the texts. Whether a model has any of the skills is measured, not assumed.

    Raises:
        HeadlensError: the model predicts no tokens.
    """
    if lens.task not in TASKS:
        raise HeadlensError(
            f"{lens.name} ({lens.task}) says no words, so its skills cannot be probed; use a model that does"
        )
    own = getattr(lens.model.config, OWN_SET, None)
    if own == "small-english":
        kinds: tuple[type[Skill], ...] = (RepeatSkill, StorySkill)
    elif own == "number-words":
        kinds = (NumberSkill,)
    else:
        kinds = (RepeatSkill, FileSkill)
        if lens.task == "seq2seq" and getattr(lens.tokenizer, "mask_token", None) is None and not _has_gaps(lens):
            kinds = (NumberSkill,)
    return tuple(skill for skill in SKILLS.values() if isinstance(skill, kinds))


def find_skills(lens: Lens, wanted: Sequence[str | Skill] | None) -> tuple[Skill, ...]:
    """Skills by name (or as they are); None: those that suit the model.

    Raises:
        HeadlensError: an unknown name, no skill at all, or one named twice.
    """
    if wanted is None:
        return skills_for(lens)
    found = tuple(_by_name(each) if isinstance(each, str) else each for each in wanted)
    names = [skill.name for skill in found]
    twice = {name for name in names if names.count(name) > 1}
    if twice or not found:
        what = f"{', '.join(sorted(twice))} is named twice" if twice else "no skill is named"
        raise HeadlensError(f"{what}; name each skill once: {', '.join(SKILLS)}")
    return found


def _by_name(name: str) -> Skill:
    if name in SKILLS:
        return SKILLS[name]
    close = difflib.get_close_matches(name.lower(), SKILLS, n=1)
    hint = f"did you mean {close[0]}? " if close else ""
    raise HeadlensError(f"unknown skill {name[:60]!r}; {hint}choose from {', '.join(SKILLS)}")


def _has_gaps(lens: Lens) -> bool:
    from headlens.probes.encode import SENTINEL

    return lens.tokenizer is not None and SENTINEL in lens.tokenizer.get_vocab()
