"""Recovery: a cut that hurts is mended, measured honestly, and to the bit the same after a break."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import pytest
import torch

from headlens.data.encode import encode
from headlens.errors import Cancelled, HeadlensError, ModelError
from headlens.evaluate import evaluate
from headlens.heads import HeadSet
from headlens.metrics import METRICS
from headlens.models.loading import load
from headlens.pruning.recovery import recover
from headlens.pruning.recovery_spec import RecoverySpec
from headlens.pruning.training import Training
from headlens.pruning.training_state import State
from tests.unit.pruning.recovery_toys import data_of, open_lens, weights

SPEC = RecoverySpec(steps=24, learning_rate=2e-3, every=6)


@pytest.fixture(autouse=True)
def one_thread() -> Any:
    """Sums in one order."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    """Equal to the bit."""
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("objective", ["task", "distill"])
def test_a_cut_that_hurts_is_mended(
    objective: str, toy_full: Path, toy_cut: Path, toy_text: Path, tmp_path: Path
) -> None:
    lens, full = open_lens(toy_cut), open_lens(toy_full)
    data = data_of(lens, toy_text)
    report = encode(lens, data.report)
    metric = METRICS["loss"]
    before = evaluate(open_lens(toy_cut), report, HeadSet(), metric=metric).main
    best = evaluate(full, report, HeadSet(), metric=metric).main
    found = recover(lens, data, dataclasses.replace(SPEC, objective=objective), full=full, keep_in=tmp_path)
    after = evaluate(lens, report, HeadSet(), metric=metric).main

    assert found.change.baseline == before.baseline
    assert found.change.value == after.baseline
    assert found.change.baseline_sem == before.baseline_sem
    assert found.change.sem == after.baseline_sem
    assert found.change.delta < -5 * found.change.delta_sem
    lost = before.baseline - best.baseline
    assert lost > 1
    assert -found.change.delta > 0.7 * lost
    assert not list(tmp_path.iterdir())
    assert not any(parameter.requires_grad for parameter in lens.model.parameters())


def test_drift_is_measured_from_the_full_model(toy_full: Path, toy_cut: Path, toy_text: Path, tmp_path: Path) -> None:
    lens, full = open_lens(toy_cut), open_lens(toy_full)
    data = data_of(lens, toy_text)
    found = recover(lens, data, dataclasses.replace(SPEC, steps=1), full=full, keep_in=tmp_path)
    untouched = open_lens(toy_cut)
    total = count = 0.0
    for example in encode(lens, data.report).examples:
        ids = example.inputs["input_ids"][None]
        with torch.no_grad():
            p, q = (torch.softmax(one.model(ids).logits[0, :-1].double(), -1) for one in (full, untouched))
        total += float((p * (p / q).log()).sum())
        count += len(p)
    assert found.before.value("drift")[0] == pytest.approx(total / count, rel=1e-5)


def test_the_steps_are_those_of_plain_transformers_and_adamw(toy_cut: Path, toy_text: Path, tmp_path: Path) -> None:
    import headlens

    spec = RecoverySpec(steps=5, learning_rate=1e-3, every=5, patience=0, clip=0.5, weight_decay=0.1, warmup=0.4)
    lens = open_lens(toy_cut)
    data = data_of(lens, toy_text)
    model = headlens.load(str(toy_cut))
    decayed = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() <= 1]
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=0.0, betas=(0.9, 0.95))
    schedule = [0.5e-3, 1e-3, 1e-3, 0.75e-3, 0.25e-3]  # two steps up, then half a cosine over three
    seen: list[Any] = []
    original = Training._step

    def spied(self: Training, number: int) -> float:
        seen.append(self.feed.batches(number))
        return original(self, number)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Training, "_step", spied)
        recover(lens, data, spec, keep_in=tmp_path)
    assert [sum(len(batch.indices) for batch in batches) for batches in seen] == [8] * 5
    for rate, (batch,) in zip(schedule, seen, strict=True):
        ids, mask = batch.inputs["input_ids"], batch.inputs["attention_mask"]
        loss: Any = model(input_ids=ids, attention_mask=mask, labels=ids.masked_fill(mask == 0, -100)).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()
        optimizer.zero_grad()
    for name, tensor in model.state_dict().items():
        torch.testing.assert_close(lens.model.state_dict()[name], tensor, rtol=1e-4, atol=2e-6)


def test_how_many_rows_run_at_a_time_changes_only_rounding(toy_cut: Path, toy_text: Path, tmp_path: Path) -> None:
    found = []
    for rows in (8, 3):
        lens = open_lens(toy_cut)
        spec = RecoverySpec(steps=6, learning_rate=1e-3, rows=rows, every=6)
        found.append(recover(lens, data_of(lens, toy_text), spec, keep_in=tmp_path))
    # Not the weights: AdamW makes steps of full size also of gradients that are only rounding (biases of keys).
    assert found[1].state.objective == pytest.approx(found[0].state.objective, rel=1e-5)
    assert found[1].change.value == pytest.approx(found[0].change.value, rel=1e-5)


class _Stop:
    """Cancels before a step."""

    def __init__(self, at: int) -> None:
        self.at = at

    def __call__(self, done: int, total: int) -> None:
        """See the class."""
        if total == SPEC.steps and done == self.at:
            raise Cancelled


@pytest.mark.parametrize("at", [1, 6, 17])
def test_after_a_break_it_ends_with_the_same_bits(at: int, toy_cut: Path, toy_text: Path, tmp_path: Path) -> None:
    whole, broken = open_lens(toy_cut), open_lens(toy_cut)
    data = data_of(whole, toy_text)
    wanted = recover(whole, data, SPEC, keep_in=tmp_path / "a")
    with pytest.raises(Cancelled):
        recover(broken, data, SPEC, keep_in=tmp_path / "b", on_progress=_Stop(at))
    again = open_lens(toy_cut)
    steps: list[int] = []
    points: list[int] = []
    found = recover(
        again,
        data,
        SPEC,
        keep_in=tmp_path / "b",
        on_progress=lambda done, total: steps.append(done) if total == SPEC.steps else None,
        on_point=lambda point: points.append(point.step),
    )
    assert steps[0] == at
    assert points == [0, 6, 12, 18, 24]
    assert same(weights(again), weights(whole))
    assert found.state.objective == wanted.state.objective
    assert found.change.value == wanted.change.value

    afresh = open_lens(toy_cut)
    with pytest.raises(Cancelled):
        recover(afresh, data, SPEC, keep_in=tmp_path / "c", on_progress=_Stop(at))
    lens, first = open_lens(toy_cut), []
    recover(lens, data, SPEC, keep_in=tmp_path / "c", resume=False, on_progress=lambda d, t: first.append((d, t)))
    assert (0, SPEC.steps) in first


def test_between_evaluations_the_state_is_kept_by_the_clock(
    toy_cut: Path, toy_text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from headlens.pruning import training

    def killed(done: int, total: int) -> None:
        if total == SPEC.steps and done == 4:
            raise KeyboardInterrupt  # unlike Cancelled, it may come at any moment, so nothing is written for it

    first: list[int] = []
    for seconds in (0.0, 1e9):
        monkeypatch.setattr(training, "KEEP_SECONDS", seconds)
        monkeypatch.setattr(training, "KEEP_SHARE", 1e9)
        lens = open_lens(toy_cut)
        data = data_of(lens, toy_text)
        with pytest.raises(KeyboardInterrupt):
            recover(lens, data, SPEC, keep_in=tmp_path / str(seconds), on_progress=killed)
        steps: list[int] = []
        recover(
            open_lens(toy_cut),
            data,
            SPEC,
            keep_in=tmp_path / str(seconds),
            on_progress=lambda done, total, steps=steps: steps.append(done) if total == SPEC.steps else None,
        )
        first.append(steps[0])
    assert first == [4, 0]


def test_the_best_weights_are_taken_and_not_the_last(toy_cut: Path, toy_text: Path, tmp_path: Path) -> None:
    lens = open_lens(toy_cut)
    before = weights(lens)
    spec = RecoverySpec(steps=40, learning_rate=0.9, every=2, patience=2, warmup=0)
    found = recover(lens, data_of(lens, toy_text), spec, keep_in=tmp_path)
    assert (found.state.best_step, found.state.step, found.stopped) == (0, 4, "no better")
    assert same(weights(lens), before)
    assert found.change.delta == 0
    assert "the model is as it was" in found.sentence()


def test_it_may_be_asked_to_stop_and_gives_the_best_so_far(toy_cut: Path, toy_text: Path, tmp_path: Path) -> None:
    lens = open_lens(toy_cut)
    asked = iter(range(1000))
    told: list[int] = []
    found = recover(
        lens,
        data_of(lens, toy_text),
        SPEC,
        keep_in=tmp_path,
        should_stop=lambda: next(asked) == 14,
        on_best=lambda state: told.append(state.best_step),
    )
    assert (found.stopped, found.state.step, found.state.best_step) == ("asked", 14, 12)
    assert told == [6, 12]
    assert found.change.delta < -0.5

    # The same call goes on; the best so far is handed out again, in case nobody saved it.
    best = weights(lens)
    again, whole = open_lens(toy_cut), open_lens(toy_cut)
    handed: list[bool] = []

    def compare(state: State) -> None:
        handed.append(state.best_step == 12 and same(weights(again), best))

    data = data_of(again, toy_text)
    assert recover(again, data, SPEC, keep_in=tmp_path, on_best=compare).state.step == SPEC.steps
    assert handed[0]
    recover(whole, data, SPEC, keep_in=tmp_path / "whole")
    assert same(weights(again), weights(whole))


def test_a_loss_that_is_no_number_ends_it_with_the_best_so_far(
    toy_cut: Path, toy_text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from headlens.pruning import training

    original, calls = training.summed_loss, []

    def broken(*arguments: Any) -> torch.Tensor:
        calls.append(1)
        return original(*arguments) * (math.nan if len(calls) > 8 else 1.0)

    monkeypatch.setattr(training, "summed_loss", broken)
    lens = open_lens(toy_cut)
    found = recover(lens, data_of(lens, toy_text), SPEC, keep_in=tmp_path)
    assert (found.stopped, found.state.step, found.state.best_step) == ("not a number", 8, 6)
    assert found.change.delta < 0
    assert "smaller learning rate" in found.sentence()


def test_frozen_embeddings_stay(toy_cut: Path, toy_text: Path, tmp_path: Path) -> None:
    lens = open_lens(toy_cut)
    before = weights(lens)
    spec = dataclasses.replace(SPEC, steps=6, freeze_embeddings=True)
    recover(lens, data_of(lens, toy_text), spec, keep_in=tmp_path)
    moved = {name for name, tensor in weights(lens).items() if not torch.equal(tensor, before[name])}
    assert not {"transformer.wte.weight", "lm_head.weight"} & moved
    assert "transformer.wpe.weight" in moved


def test_other_weights_have_another_fingerprint(toy_cut: Path, toy_text: Path, tmp_path: Path) -> None:
    lens = open_lens(toy_cut)
    before = lens.fingerprint
    recover(lens, data_of(lens, toy_text), dataclasses.replace(SPEC, steps=6), keep_in=tmp_path)
    assert lens.fingerprint != before


def test_the_same_training_runs_once_at_a_time(toy_cut: Path, toy_text: Path, tmp_path: Path) -> None:
    lens = open_lens(toy_cut)
    data = data_of(lens, toy_text)
    messages: list[str] = []

    def meanwhile(done: int, total: int) -> None:
        if total == SPEC.steps and done == 2:
            with pytest.raises(HeadlensError) as caught:
                recover(open_lens(toy_cut), data, SPEC, keep_in=tmp_path)
            messages.append(str(caught.value))

    recover(lens, data, SPEC, keep_in=tmp_path, on_progress=meanwhile)
    assert messages
    assert "running already" in messages[0]


def test_what_cannot_be_trained_is_refused(toy_cut: Path, toy_text: Path, tmp_path: Path) -> None:
    lens = open_lens(toy_cut)
    data = data_of(lens, toy_text)
    with pytest.raises(HeadlensError, match="--teacher"):
        recover(lens, data, RecoverySpec(objective="distill"), keep_in=tmp_path)
    from headlens.lens import Lens

    half = Lens(load(str(toy_cut), dtype="bfloat16"))
    with pytest.raises(ModelError, match="float32"):
        recover(half, data, SPEC, keep_in=tmp_path)


@pytest.mark.parametrize(
    "wrong",
    [
        {"steps": 0},
        {"objective": "magic"},
        {"learning_rate": 0.0},
        {"learning_rate": 3.0},
        {"per_step": 0},
        {"warmup": 1.0},
        {"clip": 0.0},
        {"weight_decay": -1.0},
        {"patience": -1},
        {"temperature": 0.0},
        {"every": -1},
    ],
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(HeadlensError):
        RecoverySpec(**wrong)
