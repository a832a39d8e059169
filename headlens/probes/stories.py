"""Pairs in small English: the generator knows which skill a word needs, and which word one without it would say."""

from __future__ import annotations

from random import Random

from headlens.probes.pairs import Pair
from headlens.zoo import english
from headlens.zoo.grammar import Story


def story_pairs(skill: str, count: int, *, seed: int) -> list[Pair]:
    """``count`` pairs for one skill, each from a story of its own.

    Where a story needs the skill more than once, one of the words is drawn. Words without a foil are left out (what is
    in the box, say, when there is only one box).

    Args:
        skill: one of :data:`headlens.zoo.english.SKILLS`.
        count: how many.
        seed: draws the stories.
    """
    rng = Random(f"probe {skill} {seed}")
    found: list[Pair] = []
    while len(found) < count:
        story = english.story(rng)
        places = [i for i, name in enumerate(story.skills) if name == skill and story.foils[i] is not None]
        if places:
            found.append(pair_at(story, rng.choice(places)))
    return found


def pair_at(story: Story, place: int) -> Pair:
    """The pair for one word of a story."""
    before, word, foil = story.words[:place], story.words[place], story.foils[place]
    assert foil is not None
    context = english.text(before)
    right, wrong = (english.text([*before, each])[len(context) :] for each in (word, foil))
    after = english.text(story.words)[len(context) + len(right) :]
    return Pair(context, right, wrong, after)
