"""Claims on training: on stored runs of both outcomes, on a real small run, and on models made for them."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from headlens.claims import during
from headlens.claims.base import NotMeasurable
from headlens.claims.during import PrunableDuringTraining
from headlens.claims.examples import make_context
from headlens.claims.recovering import Recovers
from headlens.claims.training import ScratchWorse, SharingKeeps
from headlens.lab import language as lm
from headlens.lab import language_measure as measure
from headlens.lab import shipped
from headlens.lab.experiment import run
from headlens.lab.shipped import BITS, LANGUAGE, SHARING
from headlens.lab.specs import Architecture, RunSpec, Task, Training
from headlens.lens import open_model
from headlens.store import Store
from tests.unit.claims.made_models import context, examples, made
from tests.unit.claims.test_made_removable import half_idle, vital
from tests.unit.pruning.recovery_toys import text_file, trained

ANY = context(made([1.0] * 8), examples([0], 1))
"""Claims about stored runs do not look at the model."""


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder in place of the shipped runs."""
    monkeypatch.setattr(shipped, "folder", lambda: tmp_path)
    for cached in (shipped.shipped_runs, shipped.shipped_table):
        cached.cache_clear()
    yield tmp_path
    for cached in (shipped.shipped_runs, shipped.shipped_table):
        cached.cache_clear()


def keep(folder: Path, name: str, rows: list[dict[str, Any]]) -> None:
    """A table as the lab's script writes it."""
    head = {"command": "made up", "made": "2026-01-01", "versions": {"torch": "0"}}
    (folder / name).write_text(json.dumps(head | {"rows": rows}), encoding="utf-8")


@pytest.mark.parametrize(("scratch", "verdict"), [(0.30, "holds"), (0.05, "fails")])
def test_scratch_worse_from_stored_runs(stored: Path, scratch: float, verdict: str) -> None:
    arms = {"scratch": scratch, "pruned-80": 0.1, "random-80": 0.2}
    rows = [
        {"arm": arm, "heads": heads, "seed": seed, "gap": gap + 0.004 * (seed % 3), "flops": 1.0}
        for arm, gap in arms.items()
        for heads in (1, 2)
        for seed in range(4)
    ]
    keep(stored, LANGUAGE, rows)
    found = ScratchWorse().check(ANY)
    assert (found.verdict, found.value) == (verdict, pytest.approx(scratch - 0.1))


def test_nothing_stored_is_told(stored: Path) -> None:
    for claim in (ScratchWorse(), SharingKeeps()):
        with pytest.raises(NotMeasurable, match="lab"):
            claim.check(ANY)


def test_scratch_worse_from_a_run_of_the_bit_task(stored: Path, tmp_path: Path) -> None:
    """Two seeds, far too few steps to learn anything: nothing can be decided, and that is what is said."""
    task = Task((1, 2), length=8)
    specs = [
        RunSpec(task, Architecture(heads, width=16, mlp=16), Training(4, batch=2, seed=seed), prune_to=prune_to)
        for heads, prune_to in ((4, 2), (2, None))
        for seed in range(2)
    ]
    results = [run(spec, Store(tmp_path / "store")) for spec in specs]
    shipped.save_runs(BITS, results, command="a test", made="today")
    found = ScratchWorse().check(ANY)
    assert (found.verdict, found.value) == ("mixed", 0.0)
    assert "4 heads pruned to 2 still know it in 0 of 2 runs" in found.sentence


def shared(gaps: Mapping[str, float], removed: float) -> list[dict[str, Any]]:
    rows = []
    for arm, size in (("mha", 64), ("gqa", 16), ("mqa", 8), ("mla", 20)):
        for seed in range(3):
            gap = gaps.get(arm, 0.1) + 0.002 * seed
            rows.append({"arm": arm, "heads": 8, "seed": seed, "gap": gap, "prunable": removed, "kv_bytes": size})
    return [row | {"parameters": 1} for row in rows]


@pytest.mark.parametrize(("gqa", "verdict"), [(0.11, "holds"), (0.4, "fails")])
def test_sharing_keeps_from_stored_runs(stored: Path, gqa: float, verdict: str) -> None:
    keep(stored, SHARING, shared({"mha": 0.1, "gqa": gqa, "mla": gqa}, 0.3))
    arms = (("large", 8, 0.1), ("pruned-80", 2, 0.3))
    rows = [{"arm": arm, "heads": n, "seed": seed, "gap": gap} for arm, n, gap in arms for seed in range(3)]
    keep(stored, LANGUAGE, rows)
    assert SharingKeeps().check(ANY).verdict == verdict


def test_sharing_keeps_from_a_real_run(stored: Path) -> None:
    """Three seeds, a handful of steps: all kinds are equally bad, so sharing costs next to nothing."""
    rows, text = [], measure.stories("test", 12)
    for sharing in ("mha", "gqa"):
        for seed in range(3):
            spec = lm.Language(4, sharing, width=32, d_head=8, mlp=32, steps=3, batch=2, seed=seed)  # type: ignore[arg-type]
            model = lm.train(lm.untrained(spec), spec)
            gap = measure.gap(measure.excess(model, text, d_head=8), text).value
            row = {"arm": sharing, "heads": 4, "seed": seed, "gap": gap, "kv_bytes": spec.kv_bytes}
            rows.append(row | {"prunable": 0.0, "parameters": sum(p.numel() for p in model.parameters())})
    keep(stored, SHARING, rows)
    found = SharingKeeps().check(ANY)
    assert found.value is not None
    by_arm = {arm: [row["gap"] for row in rows if row["arm"] == arm] for arm in ("mha", "gqa")}
    assert found.value == pytest.approx((sum(by_arm["gqa"]) - sum(by_arm["mha"])) / 3)
    assert "4 times smaller" in found.sentence


@pytest.mark.parametrize("grows", [True, False])
def test_prunable_during_training(monkeypatch: pytest.MonkeyPatch, grows: bool) -> None:
    """A copy and an end of which one has idle heads and the other has none."""
    first, last = (vital(), half_idle()) if grows else (half_idle(), vital())
    monkeypatch.setattr(during, "_copies", lambda _: ["made@100"])
    monkeypatch.setattr("headlens.lens.open_model", lambda *_, **__: first)
    found = PrunableDuringTraining().check(context(last, examples(range(16), 10)))
    assert (found.verdict, found.value) == (("holds", 0.5) if grows else ("fails", -0.5))


def test_prunable_during_training_of_a_model_of_the_zoo() -> None:
    from headlens.models.catalogue import checkpoints

    steps = [name.partition("@")[2] for name in checkpoints("zoo-gpt2")]
    found = PrunableDuringTraining().check(make_context(open_model("zoo-gpt2"), limit=4))
    assert found.figure is not None
    assert found.figure.series[0].x == (*steps, "end")
    assert f"After {steps[0]} steps" in found.sentence


@pytest.mark.parametrize("learns", [True, False])
def test_recovers(tmp_path: Path, learns: bool) -> None:
    """A model that learns its lines again; and the same function with weights that one step of training upsets."""
    source = text_file(tmp_path / "lines.txt")
    lens = open_model(str(trained(tmp_path / "model")))
    if not learns:
        model: Any = copy.deepcopy(lens.model)
        for block in model.transformer.h:
            for parameter in (block.attn.c_attn.weight.data, block.attn.c_attn.bias.data):
                parameter[..., :32] *= 1e4  # queries against keys, and values against the output
                parameter[..., 32:] /= 1e4
            block.attn.c_proj.weight.data *= 1e4
        model.save_pretrained(tmp_path / "model")
        lens = open_model(str(tmp_path / "model"))
    found = Recovers().check(make_context(lens, str(source), limit=60, max_tokens=16))
    assert found.verdict == ("holds" if learns else "fails"), found.sentence
    assert "3 random cuts" in found.sentence
