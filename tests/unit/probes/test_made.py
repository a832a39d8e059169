"""Pairs that are made: repeated blocks, stories, number words."""

from __future__ import annotations

from random import Random

import pytest
import torch

from headlens.lens import Lens
from headlens.probes import SKILLS, skills_for
from headlens.probes.encode import NO_GAP
from headlens.probes.numbers import PLACES, number_pairs
from headlens.probes.repeats import ENCODER_DECODER, repeat_rows
from headlens.probes.stories import pair_at, story_pairs
from headlens.zoo import english, number_words
from tests.unit.helpers import TASKS, build, open_lens
from tests.unit.tiny_tokenizer import END, tiny_tokenizer


def lens(kind: str, **more: object) -> Lens:
    tokenizer = tiny_tokenizer()
    for name, value in more.items():
        setattr(tokenizer, name, value)
    return open_lens(build(kind), TASKS[kind], tokenizer=tokenizer)


def test_the_right_answer_is_what_came_next_the_first_time() -> None:
    found = repeat_rows(lens("gpt2", bos_token="[END]"), 30, seed=0)
    assert len(found.rows) == 30
    for row in found.rows:
        ids = row.inputs["input_ids"].tolist()
        assert ids[0] == END
        assert row.position == len(ids) - 1
        block = next(n for n in range(4, len(ids)) if ids[1 : len(ids) - n] == ids[n + 1 :] and n < len(ids) - 2)
        first, second = ids[1 : block + 1], ids[block + 1 :]
        assert len({*first}) == block
        assert second == first[: len(second)]
        assert 2 <= len(second) < block
        assert row.right == first[len(second)]
        assert row.foil in first[len(second) + 1 :], "both answers have come once"


def test_models_that_fill_gaps_get_the_whole_second_copy() -> None:
    found = repeat_rows(lens("bert-mlm"), 30, seed=0)
    for row in found.rows:
        ids = row.inputs["input_ids"].tolist()
        assert ids[-1] == END
        ids = ids[:-1]
        block = len(ids) // 2
        first, second = ids[:block], ids[block:]
        assert second[row.position - block] == 23
        second[row.position - block] = row.right
        assert first == second
        assert row.foil in first
        assert row.foil != row.right


def test_the_seed_draws_them() -> None:
    one, again, other = (repeat_rows(lens("gpt2"), 5, seed=seed) for seed in (0, 0, 1))
    assert all(
        torch.equal(a.inputs["input_ids"], b.inputs["input_ids"]) for a, b in zip(one.rows, again.rows, strict=True)
    )
    assert any(a.right != b.right for a, b in zip(one.rows, other.rows, strict=True))


def test_where_nothing_can_be_repeated() -> None:
    assert repeat_rows(lens("t5"), 4, seed=0).dropped == {ENCODER_DECODER: 4}
    assert repeat_rows(lens("bert-mlm", mask_token=None), 4, seed=0).dropped == {NO_GAP: 4}


@pytest.mark.parametrize("skill", [*english.SKILLS])
def test_stories_need_the_skill_where_they_are_cut(skill: str) -> None:
    found = story_pairs(skill, 12, seed=0)
    assert len({*found}) == 12
    for pair in found:
        whole = pair.context + pair.right + pair.after
        story = english.annotate(whole)
        place = len(english.words(pair.context))
        assert story.skills[place] == skill
        assert story.words[place] == pair.right.strip()
        assert story.foils[place] == pair.foil.strip()
    assert found == story_pairs(skill, 12, seed=0)
    assert found != story_pairs(skill, 12, seed=1)
    assert SKILLS[f"story-{skill}"].ability[0].islower()


def test_spaces_are_those_of_running_text() -> None:
    story = english.story(Random(3))
    text = english.text(story.words)
    for place, foil in enumerate(story.foils):
        if foil is not None:
            pair = pair_at(story, place)
            assert pair.context + pair.right + pair.after == text


@pytest.mark.parametrize("place", [*PLACES])
def test_number_words_differ_in_the_place_that_is_asked_for(place: str) -> None:
    digit = ["thousands", "hundreds", "tens", "ones"].index(place)
    other = ["thousands", "hundreds", "tens", "ones"].index(PLACES[place])
    german = {number_words.german(n): n for n in range(1000, 10000)}
    numbers = []
    for pair in number_pairs(place, 64, seed=0):
        right, wrong = (german[pair.context + answer] for answer in (pair.right, pair.foil))
        assert pair.source == number_words.english(right)
        assert number_words.part_of(right) == "held-out"
        digits = [*str(right)]
        assert len({*digits}) == 4
        digits[digit] = str(right)[other]
        assert wrong == int("".join(digits))
        numbers.append(right)
    assert len({*numbers}) == 64


def test_models_are_asked_what_suits_them() -> None:
    plain = lens("gpt2")
    names = [skill.name for skill in skills_for(plain)]
    assert names[0] == "induction"
    assert "indirect-object" in names
    assert not any(name.startswith(("story-", "number-")) for name in names)
    plain.model.config.headlens_data = "small-english"  # as the models of the zoo say
    names = [skill.name for skill in skills_for(plain)]
    assert names == ["induction", *(f"story-{skill}" for skill in english.SKILLS)]
    numbers = lens("t5")
    numbers.model.config.headlens_data = "number-words"
    assert [skill.name for skill in skills_for(numbers)] == [f"number-{place}" for place in PLACES]
    translator = lens("t5", mask_token=None)
    assert [skill.name for skill in skills_for(translator)] == [f"number-{place}" for place in PLACES]
    assert "facts" in [skill.name for skill in skills_for(lens("t5"))]
