"""The pairs that come with HeadLens are what their README says."""

from __future__ import annotations

from collections import Counter

import pytest

from headlens import paths
from headlens.probes import SKILLS
from headlens.probes.pairs import Pair
from headlens.probes.texts import index, read_pairs

NAMES = [entry.name for entry in index()]


def pairs(name: str) -> tuple[Pair, ...]:
    return read_pairs(next(entry.file for entry in index() if entry.name == name))


def test_every_file_is_in_the_index_and_the_readme() -> None:
    folder = paths.asset_dir() / "probes"
    assert {path.stem for path in folder.glob("*.jsonl")} == {*NAMES}
    readme = (folder / "README.md").read_text(encoding="utf-8")
    assert all(f"| `{name}` |" in readme for name in NAMES)
    assert {"indirect-object", "agreement", "brackets", "quotes", "facts", "digits"} <= {*NAMES} <= {*SKILLS}


@pytest.mark.parametrize("name", NAMES)
def test_pairs_are_minimal_and_many(name: str) -> None:
    found = pairs(name)
    assert len(found) >= 24
    assert len({*found}) == len(found)
    for pair in found:
        assert pair.context == pair.context.strip()
        assert pair.right.strip() != pair.foil.strip()
        assert pair.right.startswith(" ") == pair.foil.startswith(" ")
        assert len(pair.right.split()) == len(pair.foil.split()) == 1
        assert pair.after
        assert pair.source is None


@pytest.mark.parametrize("name", ["indirect-object", "agreement", "brackets", "quotes", "facts"])
def test_an_answer_is_right_as_often_as_it_is_the_foil(name: str) -> None:
    """Who always says the same gets one half."""
    found = pairs(name)
    assert Counter(pair.right for pair in found) == Counter(pair.foil for pair in found)


@pytest.mark.parametrize("name", ["indirect-object", "agreement", "brackets", "quotes"])
def test_every_frame_comes_twice_with_the_answers_swapped(name: str) -> None:
    found = pairs(name)
    for one, other in zip(found[::2], found[1::2], strict=True):
        assert {one.right, one.foil} == {other.right, other.foil}
        assert one.right != other.right
        assert one.after == other.after


def test_who_is_given_something_is_named_once_and_the_giver_twice() -> None:
    for pair in pairs("indirect-object"):
        words = pair.context.replace(",", "").split()
        assert words.count(pair.right.strip()) == 1
        assert words.count(pair.foil.strip()) == 2
    first = [
        pair.context.index(pair.right.strip()) < pair.context.index(pair.foil.strip())
        for pair in pairs("indirect-object")
    ]
    assert sum(first) * 2 == len(first)  # the first name is right as often as the second


def test_the_noun_in_between_has_the_other_number() -> None:
    """The last word before the verb would ask for the foil."""
    plural = {" are", " were", " have"}
    for one, other in zip(pairs("agreement")[::2], pairs("agreement")[1::2], strict=True):
        assert one.right not in plural
        assert other.right in plural
        assert one.context.split()[-1] != other.context.split()[-1]


def test_the_bracket_or_quotation_that_is_open_is_the_one_to_close() -> None:
    closing = {"(": ")", "[": "]"}
    for pair in pairs("brackets"):
        still_open: list[str] = []
        for char in pair.context:
            if char in closing:
                still_open.append(closing[char])
            elif still_open and char == still_open[-1]:
                still_open.pop()
        assert still_open == [pair.right]
    for pair in pairs("quotes"):
        counts = {mark: pair.context.count(mark) % 2 for mark in (pair.right, pair.foil)}
        assert counts == {pair.right: 1, pair.foil: 0}


def test_digits_are_copied_from_the_text() -> None:
    for pair in pairs("digits"):
        digits = [char for char in pair.context if char.isdigit()]
        code, said = digits[:4], digits[4:]
        assert len({*code}) == 4
        assert said == code[: len(said)]
        assert pair.right == f" {code[len(said)]}"
        assert pair.foil.strip() in code
        assert [char for char in pair.after if char.isdigit()] == code[len(said) + 1 :]
