"""A reduced training: it learns, the seed decides everything, and an interruption changes nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch

from headlens.data.batch import IGNORE
from headlens.errors import Cancelled
from headlens.zoo import english, number_words
from headlens.zoo.batches import GROUP, draw
from headlens.zoo.recipes import LENGTH, RECIPES, build, reader
from headlens.zoo.training import forget, schedule, train

SMALL = replace(RECIPES["zoo-gpt2-small"], batch=4, steps=80, checkpoints=(30, 70))


def weights(model: Any) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in model.state_dict().items()}


def equal(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


@pytest.fixture(scope="module")
def trained() -> Any:
    return train(SMALL, seed=1)


def test_it_learns(trained: Any) -> None:
    (first, before), (last, after) = trained.curve
    assert (first, last) == (50, 80)
    assert after < before - 0.5
    start = build(SMALL, 1)
    batch = draw(SMALL, 99)(1)
    assert trained.model(**batch).loss < start(**batch).loss - 1
    assert not any(value.requires_grad for value in trained.model.parameters())


def test_the_seed_decides(trained: Any) -> None:
    again = train(SMALL, seed=1)
    assert again.curve == trained.curve
    assert equal(weights(again.model), weights(trained.model))
    assert not equal(weights(train(SMALL, seed=2, steps=80).model), weights(trained.model))


@pytest.mark.parametrize("stops", [(33,), (30, 60)])
def test_an_interruption_changes_nothing(trained: Any, stops: tuple[int, ...], tmp_path: Path) -> None:
    for stop in stops:
        train(SMALL, seed=1, folder=tmp_path, stop_after=stop)
    seen: list[int] = []
    after = train(SMALL, seed=1, folder=tmp_path, on_progress=lambda done, total: seen.append(done))
    assert seen == list(range(stops[-1] + 1, 81))
    assert after.curve == trained.curve
    assert equal(weights(after.model), weights(trained.model))
    assert sorted(after.kept) == [30, 70]
    assert all(equal(after.kept[step], trained.kept[step]) for step in (30, 70))
    forget(tmp_path, SMALL)
    assert list(tmp_path.iterdir()) == []


def test_a_state_of_another_training_is_not_gone_on_with(trained: Any, tmp_path: Path) -> None:
    train(SMALL, seed=2, folder=tmp_path, stop_after=5)
    assert equal(weights(train(SMALL, seed=1, folder=tmp_path).model), weights(trained.model))


def test_cancelling_keeps_the_last_state(trained: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(done: int, total: int) -> None:
        if done == 45:
            raise Cancelled

    monkeypatch.setattr("headlens.zoo.training.SAVE_EVERY", 20)
    with pytest.raises(Cancelled):
        train(SMALL, seed=1, folder=tmp_path, on_progress=stop)
    seen: list[int] = []
    after = train(SMALL, seed=1, folder=tmp_path, on_progress=lambda done, total: seen.append(done))
    assert seen[0] == 41
    assert equal(weights(after.model), weights(trained.model))


def test_rate_rises_and_falls() -> None:
    rates = [schedule(step, 100) for step in range(100)]
    assert rates[:6] == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0, 1.0])
    assert rates[5:61] == [1.0] * 56
    assert rates[61:] == pytest.approx([(100 - step) / 40 for step in range(61, 100)])


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_takes_a_step(name: str) -> None:
    recipe = replace(RECIPES[name], batch=2)
    model = build(recipe, 0)
    batch = draw(recipe, 0)(1)
    found = model(**batch)  # type: ignore[operator]
    assert torch.isfinite(found.loss)
    found.loss.backward()
    # Positions beyond the batch and Marian's fixed ones apart, everything is trained.
    idle = [n for n, p in model.named_parameters() if p.grad is None]
    assert all("position" in name for name in idle)


@pytest.mark.parametrize("name", ["zoo-gpt2", "zoo-bert", "zoo-t5", "zoo-vit"])
def test_batches_follow_the_seed_and_the_step(name: str) -> None:
    one, same, other = (draw(RECIPES[name], seed) for seed in (0, 0, 1))
    steps = [GROUP + 2, 1, GROUP + 2]
    first, _, again = (one(step) for step in steps)
    assert all(torch.equal(first[key], again[key]) for key in first)
    assert all(torch.equal(first[key], same(GROUP + 2)[key]) for key in first)
    key = "pixel_values" if name == "zoo-vit" else "labels"
    assert first[key].shape != other(steps[0])[key].shape or not torch.equal(first[key], other(steps[0])[key])
    assert len(first[key]) == RECIPES[name].batch


def test_what_is_hidden_from_a_masked_model() -> None:
    tokenizer: Any = reader(RECIPES["zoo-bert"])
    recipe = replace(RECIPES["zoo-bert"], practice=0.0)
    batch = draw(recipe, 0)(1)
    ids, labels, mask = batch["input_ids"], batch["labels"], batch["attention_mask"]
    hidden = ids == tokenizer.mask_token_id
    assert torch.equal(hidden, labels != IGNORE)
    assert not (labels[hidden] < len(tokenizer.all_special_ids)).any()
    ordinary = mask.sum(1) - 2
    assert hidden.sum(1).tolist() == [max(1, round(0.15 * int(n))) for n in ordinary]
    assert ids.shape[1] <= LENGTH


@pytest.mark.parametrize(("name", "most"), [("zoo-bert", 0.5), ("zoo-llama", 1.0)])
def test_steps_of_practice_ask_mostly_for_skills(name: str, most: float) -> None:
    """Parsed by the grammar from the words alone; then, from the first step after it on, asked for as measured."""
    recipe = replace(RECIPES[name], practice=0.5, steps=80, batch=16)
    tokenizer: Any = reader(recipe)
    batch_of = draw(recipe, 3)

    def shares(steps: range) -> tuple[float, float]:
        """Of the words that need a skill, and of the others, the share that is asked for."""
        skilled, plain = [], []
        for batch in map(batch_of, steps):
            for ids, labels, mask in zip(batch["input_ids"], batch["labels"], batch["attention_mask"], strict=True):
                whole = ids.where(labels == IGNORE, labels)[mask.bool()][1:-1]
                story = english.annotate(" ".join(tokenizer.convert_ids_to_tokens(whole.tolist())))
                for skill, label in zip(story.skills, labels[mask.bool()][1:-1].tolist(), strict=True):
                    (plain if skill is None else skilled).append(label != IGNORE)
        return sum(skilled) / len(skilled), sum(plain) / len(plain)

    assert shares(range(1, 41)) == pytest.approx((most, most / 5), abs=0.03)
    after = 0.15 if name == "zoo-bert" else 1.0
    assert shares(range(41, 61)) == pytest.approx((after, after), abs=0.04)


def test_held_out_numbers_are_never_trained_on() -> None:
    tokenizer: Any = reader(RECIPES["zoo-t5"])
    rng = Random(0)
    held = {word for _ in range(500) for word in number_words.pair(rng, "held-out").target.split()}
    held = {word for word in held if "tausend" in word}
    assert len(held) > 200
    for step in range(1, 40):
        labels = draw(RECIPES["zoo-t5"], 0)(step)["labels"]
        texts = tokenizer.batch_decode(labels.where(labels != IGNORE, 0), skip_special_tokens=True)
        assert not held & {word for text in texts for word in text.split()}
