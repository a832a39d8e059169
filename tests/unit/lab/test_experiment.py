"""One run from description to result, its further runs, and the store between them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from headlens.lab import experiment
from headlens.lab.experiment import run
from headlens.lab.model import build, cut
from headlens.lab.pruning import greedy, held_out_bench, random_subsets, score_bench
from headlens.lab.results import RunResult, stored
from headlens.lab.specs import After, Architecture, RunSpec, Task, Training
from headlens.lab.training import train
from headlens.store import Store

TASK = Task((1, 2), length=8)
SPEC = RunSpec(TASK, Architecture(4, width=32, mlp=32), Training(40, batch=8, seed=1), prune_to=2)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def trained() -> torch.nn.Module:
    model = build(TASK, SPEC.architecture, 1)
    train(model, SPEC.training)
    return model


def test_a_result_is_what_the_pieces_say(store: Store) -> None:
    found = run(SPEC, store)
    model = trained()
    bench = held_out_bench(model)  # type: ignore[arg-type]
    kept = greedy(score_bench(model), down_to=2)[-1]  # type: ignore[arg-type]
    assert found.loss_bits == pytest.approx(bench.loss(range(4)).bits, abs=1e-6)
    assert found.kept == kept
    assert found.pruned_loss_bits == pytest.approx(bench.loss(kept).bits, abs=1e-6)
    assert found.by_size[2] == pytest.approx(found.pruned_loss_bits, abs=1e-6)
    assert found.by_size[4] == pytest.approx(found.loss_bits, abs=1e-6)
    for bits, choice in zip(found.random_bits, random_subsets(4, 2, 8, 1), strict=True):
        assert bits == pytest.approx(bench.loss(choice).bits, abs=1e-6)
    assert found.heads == (0, 1, 2, 3)
    assert found.curve[-1][0] == 40


def test_a_second_time_is_from_the_store_and_survives_json(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    found = run(SPEC, store)
    assert RunResult.from_dict(json.loads(json.dumps(found.to_dict()))) == found
    assert stored(SPEC, store) == found
    monkeypatch.setattr(experiment, "train", None)  # nothing is trained any more
    assert run(SPEC, store) == found
    # the same model pruned to another number of heads: weights and curve are known
    other = run(replace(SPEC, prune_to=3), store)
    assert other.curve == found.curve
    assert other.loss_bits == found.loss_bits
    with pytest.raises(TypeError):
        run(replace(SPEC, training=replace(SPEC.training, seed=2)), store)


@pytest.mark.parametrize("kind", ["continued", "pruned", "random", "ticket"])
def test_further_training_starts_from_the_right_weights(store: Store, kind: str) -> None:
    """Two steps of further training, done here by hand."""
    heads = 4 if kind == "continued" else 2
    spec = replace(SPEC, prune_to=None, after=After(kind, heads, 2, 1e-3))  # type: ignore[arg-type]
    found = run(spec, store)
    model = trained()
    kept = greedy(score_bench(model), down_to=2)[-1]  # type: ignore[arg-type]
    start = {
        "continued": lambda: model,
        "pruned": lambda: cut(model, kept),  # type: ignore[arg-type]
        "random": lambda: cut(model, random_subsets(4, 2, 1, 1)[0]),  # type: ignore[arg-type]
        "ticket": lambda: cut(build(TASK, SPEC.architecture, 1), kept),
    }[kind]()
    before = held_out_bench(start).loss(range(heads)).bits
    purpose = "training" if kind == "ticket" else "further training"
    train(start, Training(2, batch=8, learning_rate=1e-3, seed=1), purpose=purpose)
    assert found.before_bits == pytest.approx(before, abs=1e-6)
    assert found.loss_bits == pytest.approx(held_out_bench(start).loss(range(heads)).bits, abs=1e-6)
    assert len(found.heads) == heads
    if kind == "ticket":
        assert found.before_bits == pytest.approx(2, abs=0.2)  # it knows nothing yet


def test_checkpoints_go_from_nothing_learnt_to_the_trained_model() -> None:
    spec = replace(SPEC, training=replace(SPEC.training, steps=200, batch=16), checkpoints=True)
    found = run(spec, None)
    steps = [checkpoint.step for checkpoint in found.checkpoints]
    assert steps == [0, 10, 20, 40, 70, 120, 200]
    assert found.checkpoints[0].share is None  # nothing is learnt yet, so "prunable" means nothing
    assert found.checkpoints[-1].bits == pytest.approx(found.loss_bits, abs=1e-6)
    assert found.checkpoints[-1].by_size == pytest.approx(found.by_size, abs=1e-5)


def test_a_run_that_diverges_is_told_as_such() -> None:
    found = run(replace(SPEC, training=replace(SPEC.training, learning_rate=1.0, steps=60)), None)
    assert not found.succeeded
    assert not found.pruned_succeeded
