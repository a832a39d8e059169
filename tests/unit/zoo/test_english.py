"""Small English: skills and parses worked out again from the text alone, by rules that know nothing of templates."""

from __future__ import annotations

import math
import re
from collections import Counter
from random import Random

import pytest

from headlens.zoo import english
from headlens.zoo.english import GRAMMAR, LONGEST, SKILLS, annotate, text, words
from headlens.zoo.english_words import CLASSES, NUMBERS
from headlens.zoo.grammar import Story

PARTNERS = {"(": ")", "[": "]", "“": "”", "‘": "’"}
PAIRS = re.findall(
    r"\w+", "salt pepper bread butter thunder lightning cat mouse knife fork hide seek rock roll needle thread"
)


def stories(count: int = 400) -> list[Story]:
    rng = Random(0)
    return [english.story(rng) for _ in range(count)]


def answers(story: str) -> list[tuple[str, str]]:
    """Every (skill, right word) of a story's text, in the order in which the text asks for them."""
    found: list[tuple[int, str, str]] = []
    for match in re.finditer(r"\w+ counted to (\w+): ([\w ]+)\.", story):
        want = NUMBERS[: NUMBERS.index(match[1]) + 1]
        assert tuple(match[2].split()) == want
        found += [(match.end(2), "count", word) for word in [*want[1:], "."]]
    for match in re.finditer(r"(\w+) and (\w+) went to the \w+\. (\w+) \w+ the \w+ to (\w+)\.", story):
        other = match[1] if match[3] == match[2] else match[2]
        assert match[4] == other != match[3]
        found.append((match.end(4), "recipient", other))
    for match in re.finditer(r"The (\w+) (?:near the \w+|that \w+ \w+) (is|are|was|were) \w+\.", story):
        plural = match[1] in CLASSES["things"]
        assert (
            match[2]
            == {("n", False): "is", ("n", True): "are", ("t", False): "was", ("t", True): "were"}[
                "n" if " near " in match[0] else "t", plural
            ]
        )
        found.append((match.end(2), "agreement", match[2]))
    opened: list[str] = []
    for match in re.finditer("[][()“”‘’]", story):
        if match[0] in PARTNERS:
            opened.append(PARTNERS[match[0]])
            continue
        assert match[0] == opened.pop()
        found.append((match.end(), "bracket" if match[0] in "])" else "quote", match[0]))
    assert not opened
    for match in re.finditer(r" of (\w+) and (\w+)\.", story):
        assert match[2] == PAIRS[PAIRS.index(match[1]) + 1]
        found.append((match.end(2), "idiom", match[2]))
    places = {m[1]: m[2] for m in re.finditer(r"(?<!Still )[Tt]he (\w+) holds the (\w+)", story)}
    for match in re.finditer(r"Still the (\w+) holds the (\w+)\.", story):
        assert match[2] == places[match[1]]
        found.append((match.end(2), "recall", match[2]))
    names, surnames = "|".join(CLASSES["name"]), "|".join(CLASSES["surname"])
    people = {m[1]: m[2] for m in re.finditer(f"(?<!Then )({names}) ({surnames})", story)}
    for match in re.finditer(r"Then (\w+) (\w+) \w+\.", story):
        assert match[2] == people[match[1]]
        found.append((match.end(2), "surname", match[2]))
    for match in re.finditer(r"\w+ read: ([\w ]+)\. \w+ repeated: ([\w ]+)\.", story):
        assert match[1] == match[2]
        found += [(match.end(2), "repeat", word) for word in match[1].split()]
    return [(skill, word) for _, skill, word in sorted(found, key=lambda each: each[0])]


def test_skills_are_those_of_the_text() -> None:
    seen: Counter[str] = Counter()
    for story in stories():
        marked = [(skill, word) for skill, word in zip(story.skills, story.words, strict=True) if skill]
        assert marked == answers(text(story.words))
        seen.update(skill for skill, _ in marked)
    assert set(seen) == set(SKILLS)
    assert min(seen.values()) > 100


def test_foils_are_wrong_and_of_the_same_kind() -> None:
    kinds = [set(CLASSES["item"]), {"is", "are"}, {"was", "were"}, {")", "]"}, {"’", "”"}, {*NUMBERS, "."}]
    kinds += [set(CLASSES["surname"]), set(PAIRS[1::2])]
    without = Counter()
    for story in stories():
        for skill, word, foil in zip(story.skills, story.words, story.foils, strict=True):
            assert skill or foil is None
            if skill and foil is None:
                without[skill] += 1
            elif skill:
                assert foil != word
                assert foil in GRAMMAR.words
                assert any({word, foil} <= kind for kind in kinds)
    # Only where nothing else is remembered there is nothing to mix it up with.
    assert set(without) == {"recall", "surname"}


def test_skilled_words_can_be_known() -> None:
    """Apart from when a bracket or a quotation ends, a perfect reader is certain of the words that need a skill."""
    for story in stories(60):
        for skill, chance in zip(story.skills, GRAMMAR.log_probabilities(story.words), strict=True):
            assert math.isfinite(chance)
            if skill and skill not in ("bracket", "quote"):
                assert chance == pytest.approx(0, abs=1e-9)


def test_parses_are_trees_that_do_not_cross() -> None:
    for story in stories():
        arcs = [(i, head) for i, head in enumerate(story.heads) if head >= 0]
        assert [i for i, head in enumerate(story.heads) if head < 0] == [
            i for i, relation in enumerate(story.relations) if relation == "root"
        ]
        for i in range(len(story.words)):
            steps = 0
            while story.heads[i] >= 0:
                i, steps = story.heads[i], steps + 1
                assert steps <= len(story.words)
        for a, b in arcs:
            low, high = min(a, b), max(a, b)
            for c, d in arcs:
                assert not (low < min(c, d) < high < max(c, d))


def test_parses_by_rules() -> None:
    """What a few rules about neighbours say; every rule is tried many times."""
    nouns = {word for name in ("thing", "things", "person", "container", "place") for word in CLASSES[name]} | {"one"}
    verbs = {word for name in ("transitive", "intransitive", "giving", "telling") for word in CLASSES[name]}
    tried: Counter[str] = Counter()
    for story in stories():
        sentences = " ".join(story.words)
        inside = 0  # words of lists, which follow no rule
        for i, (word, head, relation) in enumerate(zip(story.words, story.heads, story.relations, strict=True)):
            if word in ("read", "repeated", "counted", "sang", "spoke", "dreamt"):
                inside = 1
            inside = 0 if word == "." else inside
            after = story.words[i + 1] if i + 1 < len(story.words) else ""
            if inside:
                continue
            if word in ("the", "The"):
                noun = next(j for j in range(i + 1, len(story.words)) if story.words[j] in nouns)
                assert (head, relation) == (noun, "det")
                tried["det"] += 1
            elif word in CLASSES["adjective"] and after in nouns:
                assert (head, relation) == (i + 1, "amod")
                tried["amod"] += 1
            elif word in CLASSES["adverb"]:
                assert (relation, story.words[head] in verbs, head) == ("advmod", True, i + 1)
                tried["advmod"] += 1
            elif word in CLASSES["surname"]:
                assert (head, relation) == (i - 1, "flat")
                tried["flat"] += 1
            elif relation == "obj" and word != "that":
                before = [j for j in range(i) if story.words[j] in {*verbs, "met", "holds"}]
                assert head == before[-1]
                tried["obj"] += 1
            elif word in CLASSES["transitive"]:
                subject = next(j for j in range(i) if story.heads[j] == i and story.relations[j] == "nsubj")
                assert subject == i - 1
                tried["nsubj"] += 1
        assert sentences.count(" . ") + 1 == story.relations.count("root")
    assert set(tried) == {"det", "amod", "advmod", "flat", "obj", "nsubj"}
    assert min(tried.values()) > 50


def test_a_parse_by_hand() -> None:
    told = (
        "Anna and Ben went to the park. Anna gave the key to Ben. The keys near the lamp are red. "
        "Leo [the man] slept. The red man often slept. Leo saw the old pen. Ida sang of cat and mouse."
    )
    story = annotate(told)
    assert text(story.words) == told
    got = {(story.words[h] if h >= 0 else "-", r, w) for h, r, w in zip(story.heads, story.relations, story.words)}  # noqa: B905
    assert {
        ("went", "nsubj", "Anna"), ("Anna", "conj", "Ben"), ("went", "obl", "park"), ("gave", "obj", "key"),
        ("gave", "obl", "Ben"), ("red", "nsubj", "keys"), ("keys", "nmod", "lamp"), ("red", "cop", "are"),
        ("Leo", "appos", "man"), ("slept", "nsubj", "Leo"), ("slept", "advmod", "often"), ("saw", "obj", "pen"),
        ("pen", "amod", "old"), ("sang", "obl", "cat"), ("cat", "conj", "mouse"), ("-", "root", "went"),
    } <= got  # fmt: skip
    assert (story.skills[13], story.foils[13]) == ("recipient", "Anna")


def test_text_and_back() -> None:
    for story in stories(100):
        assert len(story.words) <= LONGEST
        assert words(text(story.words)) == list(story.words)
        assert annotate(text(story.words)) == story
        assert set(story.words) <= set(GRAMMAR.words)
        assert not re.search(r" [.:)\]”’]|[(\[“‘] ", text(story.words))
    with pytest.raises(ValueError, match="no whole story"):
        annotate("It was a dark and stormy night.")


def test_entropy_is_that_of_the_draws() -> None:
    """The mean of the exact logarithms against how often the first words of stories come up in a separate sample."""
    drawn = stories(6000)
    firsts = Counter(story.words[0] for story in drawn)
    chances = GRAMMAR.next_words(GRAMMAR.start())
    assert sum(chances.values()) == pytest.approx(1)
    for word, chance in chances.items():
        assert firsts[word] / len(drawn) == pytest.approx(chance, abs=5 * math.sqrt(chance / len(drawn)))
    seconds = Counter(story.words[1] for story in drawn if story.words[0] == "Anna")
    _, beliefs = GRAMMAR.read(GRAMMAR.start(), "Anna")
    for word, chance in GRAMMAR.next_words(beliefs).items():
        error = math.sqrt(chance / firsts["Anna"])
        assert seconds[word] / firsts["Anna"] == pytest.approx(chance, abs=5 * error)
