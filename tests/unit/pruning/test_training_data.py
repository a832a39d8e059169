"""What is trained on, watched and reported: three parts that share nothing."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
import torch

from headlens.data.dataset import Example
from headlens.data.encode import encode
from headlens.data.select import load_data
from headlens.errors import DataError
from headlens.lens import Lens
from headlens.models.loading import load
from headlens.pruning.training_data import Feed, recovery_data, watched
from tests.small_models import save_bert
from tests.unit.pruning.recovery_toys import lines, open_lens, text_file


@pytest.fixture
def lens(toy_cut: Path) -> Lens:
    """A causal language model."""
    return open_lens(toy_cut)


def test_a_file_gives_three_parts_that_share_nothing(lens: Lens, toy_text: Path) -> None:
    data = recovery_data(lens, str(toy_text), seed=4)
    parts = [set(part.examples) for part in (data.train, data.watch, data.report)]
    assert [len(part) for part in parts] == [52, 8, 60]
    assert not parts[0] & parts[1]
    assert not (parts[0] | parts[1]) & parts[2]
    # What is reported is what `evaluate --split held-out` measures.
    assert data.report == load_data(str(toy_text), task="causal-lm", split="held-out", seed=4)
    assert recovery_data(lens, str(toy_text), seed=4) == data
    assert recovery_data(lens, str(toy_text), seed=5).report != data.report


def test_built_in_sets_keep_their_halves_and_may_be_joined(lens: Lens) -> None:
    data = recovery_data(lens, "stories, essays")
    held_out = [load_data(name, task="causal-lm", split="held-out").examples for name in ("stories", "essays")]
    assert data.report.examples == held_out[0] + held_out[1]
    assert data.report.name == "stories,essays"
    assert len(data.train.examples) + len(data.watch.examples) == 48
    assert len(data.watch.examples) == 8
    assert recovery_data(lens).report.name == "stories"


def test_other_data_may_be_reported(lens: Lens, toy_text: Path, tmp_path: Path) -> None:
    mine = toy_text.read_text(encoding="utf-8").splitlines()
    others = [line for line in lines(60, seed=9) if line not in mine][:20]
    other = tmp_path / "other.txt"
    other.write_text("\n".join(others), encoding="utf-8")
    data = recovery_data(lens, str(toy_text), held_out=str(other))
    assert [example.text for example in data.report.examples] == others
    assert len(data.train.examples) + len(data.watch.examples) == 120
    # What is reported is taken out of the training.
    both = tmp_path / "both.txt"
    both.write_text("\n".join([*mine[:30], *others]), encoding="utf-8")
    data = recovery_data(lens, str(both), held_out=str(other))
    assert len(data.train.examples) + len(data.watch.examples) == 30
    assert data.notes == ("20 examples that are also reported were left out of the training",)


def test_equal_examples_are_watched_or_trained_on_but_not_both(lens: Lens, tmp_path: Path) -> None:
    path = tmp_path / "twice.txt"
    path.write_text("\n".join(lines(40) * 3), encoding="utf-8")
    data = recovery_data(lens, str(path))
    assert not set(data.train.examples) & set(data.watch.examples)
    assert Counter(Counter(data.watch.examples).values()) == {3: len(set(data.watch.examples))}
    order = list(data.train.examples)
    assert watched(order, 0) == watched(order[::-1], 0)


@pytest.mark.parametrize(("count", "wanted"), [(1, 0), (2, 1), (6, 2), (30, 8), (80, 10), (1000, 48)])
def test_how_many_are_watched(count: int, wanted: int) -> None:
    assert len(watched([Example(text=str(number)) for number in range(count)], 0)) == wanted


def test_too_little_or_unfitting_data_are_told(lens: Lens, toy_text: Path, tmp_path: Path) -> None:
    few = tmp_path / "few.txt"
    for count, words in ((1, "1 different example cannot be trained on"), (2, "2 different examples cannot be")):
        few.write_text("\n".join(lines(count)), encoding="utf-8")
        with pytest.raises(DataError, match=words):
            recovery_data(lens, str(few))
    few.write_text("\n".join(lines(3)), encoding="utf-8")
    found = recovery_data(lens, str(few))
    assert [len(part.examples) for part in (found.train, found.watch, found.report)] == [1, 1, 1]
    found = recovery_data(lens, str(toy_text), limit=2)  # of each half
    assert [len(part.examples) for part in (found.train, found.watch, found.report)] == [1, 1, 2]
    for split in ("held-out", "all"):
        with pytest.raises(DataError, match="--held-out"):
            recovery_data(lens, str(toy_text), split=split)  # type: ignore[arg-type]
    pairs = tmp_path / "pairs.jsonl"
    pairs.write_text(json.dumps({"source": "a", "target": "b"}), encoding="utf-8")
    with pytest.raises(DataError, match="causal-lm"):
        recovery_data(lens, str(pairs))
    with pytest.raises(DataError, match="unknown data set"):
        recovery_data(lens, "stories,nothing")


def test_every_epoch_has_every_example_once_in_another_order(lens: Lens, toy_text: Path) -> None:
    data = recovery_data(lens, str(toy_text))
    feed = Feed(lens, data.train, per_step=13, rows=5, seed=2)
    steps = len(data.train.examples) // 13
    epochs = []
    for epoch in range(2):
        batches = [batch for step in range(steps) for batch in feed.batches(epoch * steps + step)]
        assert all(len(batch.indices) <= 5 for batch in batches)
        epochs.append([tuple(row[row != 0].tolist()) for batch in batches for row in batch.inputs["input_ids"]])
    wanted = Counter(tuple(e.inputs["input_ids"].tolist()) for e in encode(lens, data.train).examples)
    assert Counter(epochs[0]) == Counter(epochs[1]) == wanted
    assert epochs[0] != epochs[1]
    late = Feed(lens, data.train, per_step=13, rows=5, seed=2).batches(5)
    assert all(
        torch.equal(a.inputs["input_ids"], b.inputs["input_ids"]) for a, b in zip(late, feed.batches(5), strict=True)
    )


def test_a_step_may_take_more_examples_than_there_are(lens: Lens, tmp_path: Path) -> None:
    data = recovery_data(lens, str(text_file(tmp_path / "small.txt", count=6)))
    feed = Feed(lens, data.train, per_step=8, rows=8)
    assert sum(len(batch.indices) for batch in feed.batches(0)) == 8


def test_masked_models_get_other_hidden_words_in_each_epoch(tmp_path: Path) -> None:
    lens = Lens(load(str(save_bert(tmp_path / "bert"))))
    data = recovery_data(lens, "stories", limit=12)
    feed = Feed(lens, data.train, per_step=len(data.train.examples), rows=64)
    hidden = []
    for epoch in range(2):
        (batch,) = feed.batches(epoch)
        assert batch.targets is not None
        whole = torch.where(batch.targets >= 0, batch.targets, batch.inputs["input_ids"])
        rows = {tuple(w.tolist()): tuple((t >= 0).tolist()) for w, t in zip(whole, batch.targets, strict=True)}
        hidden.append(rows)
    assert hidden[0].keys() == hidden[1].keys()
    assert all(hidden[0][text] != hidden[1][text] for text in hidden[0])
