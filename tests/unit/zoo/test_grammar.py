"""Probabilities of words, against an enumeration of every story of a small grammar."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from random import Random

import pytest

from headlens.zoo.grammar import Grammar
from headlens.zoo.templates import template

CLASSES = {"name": ("Ann", "Bob", "Cid"), "thing": ("cup", "pen")}
# Two templates begin alike, one needs what another stores, and a name is used again.
GRAMMAR = Grammar(
    tuple(
        template(table, CLASSES)
        for table in (
            """
            meet 1 has[a]=t
            {a:name!@has} 2 nsubj
            got 0 root
            {t:thing} 2 obj""",
            """
            greet 2
            {a:name} 2 nsubj
            saw 0 root
            {b:name!a} 2 obj
            {a} 2 obj who {b}""",
            """
            ask 3 has?
            what 2 obj
            {a:has?} 0 root
            {has[a]} 2 dep recall {has[*]}""",
        )
    ),
    2,
)


def every_story() -> dict[tuple[str, ...], float]:
    """Probability of every story, by going through all of them by hand: no code of the grammar is used."""
    names, things = CLASSES["name"], CLASSES["thing"]

    def passages(held: dict[str, str]) -> Iterator[tuple[tuple[str, ...], float, dict[str, str]]]:
        total = 1 + 2 + (3 if held else 0)
        free = [name for name in names if name not in held]
        for a in free:
            for t in things:
                yield (a, "got", t), 1 / total / len(free) / len(things), {**held, a: t}
        for a in names:
            for b in names:
                if b != a:
                    yield (a, "saw", b, a), 2 / total / 6, held
        for a, t in held.items():
            yield ("what", a, t), 3 / total / len(held), held

    found: dict[tuple[str, ...], float] = defaultdict(float)
    for first, share, held in passages({}):
        for second, other, _ in passages(held):
            found[first + second] += share * other
    return dict(found)


STORIES = every_story()


def test_the_enumeration_is_whole() -> None:
    assert sum(STORIES.values()) == pytest.approx(1)
    assert len(STORIES) > 100


def test_probability_of_a_story() -> None:
    for words, probability in STORIES.items():
        assert math.exp(sum(GRAMMAR.log_probabilities(words))) == pytest.approx(probability)
    assert GRAMMAR.log_probabilities(["Ann", "what"])[-1] == -math.inf


@pytest.mark.parametrize("words", [s for i, s in enumerate(STORIES) if i % 23 == 0])
def test_next_words_are_conditional_frequencies(words: tuple[str, ...]) -> None:
    beliefs = GRAMMAR.start()
    for place, word in enumerate(words):
        begun = {s: p for s, p in STORIES.items() if s[:place] == words[:place] and len(s) > place}
        wanted: Counter[str] = Counter()
        for story, probability in begun.items():
            wanted[story[place]] += probability / sum(begun.values())  # type: ignore[assignment]
        assert GRAMMAR.next_words(beliefs) == pytest.approx(dict(wanted))
        _, beliefs = GRAMMAR.read(beliefs, word)
    assert GRAMMAR.next_words(beliefs) == {}


@pytest.mark.parametrize("hidden", [(0,), (2,), (0, 2), (1, 4), (3, 4, 5), (0, 2, 3, 5)])
def test_hidden_words_are_conditional_frequencies(hidden: tuple[int, ...]) -> None:
    for words in [s for i, s in enumerate(STORIES) if i % 31 == 0 and len(s) > max(hidden)]:
        shown = [None if i in hidden else word for i, word in enumerate(words)]
        fitting = {s: p for s, p in STORIES.items() if len(s) == len(words) and _fits(s, shown)}
        for place, guess in zip(hidden, GRAMMAR.hidden_words(shown), strict=True):
            wanted: dict[str, float] = defaultdict(float)
            for story, probability in fitting.items():
                wanted[story[place]] += probability / sum(fitting.values())
            assert guess == pytest.approx(dict(wanted))


def _fits(story: Sequence[str], shown: Sequence[str | None]) -> bool:
    return all(word in (None, own) for word, own in zip(shown, story, strict=True))


def test_impossible_words_are_refused() -> None:
    with pytest.raises(ValueError, match="no whole story"):
        GRAMMAR.hidden_words([None, "what"])
    with pytest.raises(ValueError, match="no whole story"):
        GRAMMAR.annotate(["Ann", "got", "cup"])


def test_drawn_stories_are_as_frequent_as_they_should_be() -> None:
    rng, drawn = Random(0), 20_000
    counts = Counter(GRAMMAR.story(rng).words for _ in range(drawn))
    assert set(counts) <= set(STORIES)
    # Pearson's statistic has mean and half its variance equal to the degrees of freedom: five deviations are allowed.
    statistic = sum((counts[s] - drawn * p) ** 2 / (drawn * p) for s, p in STORIES.items())
    freedom = len(STORIES) - 1
    assert abs(statistic - freedom) < 5 * math.sqrt(2 * freedom)


def test_annotation_of_words_alone() -> None:
    story = GRAMMAR.annotate(["Ann", "got", "pen", "what", "Ann", "pen"])
    assert story.templates == ("meet",) * 3 + ("ask",) * 3
    assert story.heads == (1, -1, 1, 4, -1, 4)
    assert story.skills == (None, None, None, None, None, "recall")
    assert story.foils[-1] is None  # nothing else is known
    story = GRAMMAR.annotate(["Bob", "saw", "Cid", "Bob", "Cid", "got", "cup"])
    assert (story.skills[3], story.foils[3]) == ("who", "Cid")
    rng = Random(1)
    for drawn in (GRAMMAR.story(rng) for _ in range(300)):
        assert GRAMMAR.annotate(drawn.words) == drawn


def test_the_seed_decides() -> None:
    first, again, other = ([GRAMMAR.story(Random(seed)).words for _ in range(3)] for seed in (3, 3, 4))
    assert first == again != other


@pytest.mark.parametrize(
    "table",
    ["x 1\nword 1", "x 1\nword 3 det", "x 1\n{a:name 0 root", "x 1 what\nword 0 root", "x 1 a[b]=c d[e]=f\nw 0 r"],
)
def test_broken_templates_are_refused(table: str) -> None:
    with pytest.raises(ValueError, match="template"):
        template(table, CLASSES)


def test_memory_has_room_for_four() -> None:
    many = {**CLASSES, "name": tuple("abcdefghij")}
    grammar = Grammar((template("get 1 has[a]=t\n{a:name!@has} 0 root\n{t:thing} 1 obj", many),
                       template("pass 1\n- 0 root\n- 1 dep", many)), 8)  # fmt: skip
    rng = Random(0)
    got = [sum(a in many["name"] for a, _ in pairwise(grammar.story(rng).words)) for _ in range(50)]
    assert max(got) == 4
