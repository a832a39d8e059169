"""Measuring models: against the library by another way, and what is kept."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from headlens.errors import Cancelled
from headlens.families.identity import identity
from headlens.families.run import Options, Watch, _Steps, kept_row, kept_rows, measure_all
from headlens.heads import HeadSet
from headlens.lens import open_model
from headlens.models.catalogue import zoo_folder
from headlens.store import Store

OPTIONS = Options(tokens=60)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Two layers of eight heads that have learnt something: an untrained model says nothing."""
    return shutil.copytree(zoo_folder("zoo-gpt2-small"), tmp_path_factory.mktemp("families") / "small").as_posix()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(tmp_path_factory.mktemp("families-store"))


def refuse(name: str) -> Any:
    raise AssertionError(f"{name} was opened again")


def test_the_share_is_that_of_a_loop_over_evaluate(folder: str, store: Store) -> None:
    from headlens.claims.examples import make_context
    from headlens.evaluate import evaluate
    from headlens.importance import METHODS, Request
    from headlens.importance.score import score
    from headlens.metrics import METRICS

    ticks: list[tuple[int, int]] = []
    phases: list[str] = []
    found = measure_all([folder], OPTIONS, store=store, watch=Watch(lambda *at: ticks.append(at), phases.append))
    row = found.rows[folder]
    assert ticks[-1] == (1000, 1000)
    assert [done for done, _ in ticks] == sorted(done for done, _ in ticks)
    assert any("single" in title or "one head" in title for title in phases)

    lens = open_model(folder)
    context = make_context(lens, tokens=60)
    scores = score(lens, METHODS["gradient"], Request(METRICS["loss"], context.score)).array
    ranked = sorted(lens.topology.heads(), key=lambda head: (scores[head.layer, head.head], head))
    share = 0.0
    for count in sorted({round(tenth * 16 / 10) for tenth in range(11)}):
        off = HeadSet.of(ranked[:count])
        if count and evaluate(lens, context.held_out, off, metric=METRICS["loss"]).main.delta > 0.1:
            break
        share = count / 16
    assert 0 < share < 1
    assert row.findings["removable"].value == pytest.approx(share)
    assert (row.heads, row.kind, row.texts, row.metric) == (16, "decoder", "halves", "loss")
    assert row.findings["cross"].verdict == "not measurable"
    assert row.layers == 2
    assert row.cut is not None
    off = lens.topology.parse(row.cut.off)
    assert len(off) == share * 16
    again = evaluate(lens, context.held_out, off, metric=METRICS["loss"]).measured["accuracy"]
    assert row.cut.accuracy == pytest.approx(again.value)


def test_a_kept_row_needs_no_model(folder: str, store: Store) -> None:
    measure_all([folder], OPTIONS, store=store)
    again = measure_all([folder], OPTIONS, store=store, opener=refuse)
    assert again.rows[folder] == kept_row(folder, OPTIONS, store)
    with pytest.raises(AssertionError, match="opened again"):
        measure_all([folder], Options(tokens=61), store=store, opener=refuse)


def test_another_weight_is_another_model(folder: str, store: Store, tmp_path: Path) -> None:
    measure_all([folder], OPTIONS, store=store)
    other = tmp_path / "other"
    shutil.copytree(folder, other)
    before = identity(str(other))
    weights = other / "model.safetensors"
    raw = bytearray(weights.read_bytes())
    raw[-1] ^= 1
    weights.write_bytes(bytes(raw))
    assert identity(str(other)) != before
    assert kept_rows([str(other)], OPTIONS, store) == {}


def test_what_cannot_be_opened_is_left_out_with_the_reason(folder: str, store: Store) -> None:
    found = measure_all(["no-such-model-anywhere", folder], OPTIONS, store=store)
    assert list(found.rows) == [folder]
    assert "no-such-model-anywhere" in found.skipped["no-such-model-anywhere"]


def test_a_cancelled_run_goes_on_from_its_finished_figures(folder: str, tmp_path: Path) -> None:
    store, seen = Store(tmp_path / "store"), []

    def stop(title: str) -> None:
        seen.append(title)
        if "methods alike" in title:
            raise Cancelled

    with pytest.raises(Cancelled):
        measure_all([folder], OPTIONS, store=store, watch=Watch(on_phase=stop))
    seen.clear()
    measure_all([folder], OPTIONS, store=store, watch=Watch(on_phase=seen.append))
    assert not any("heads that can go, the curve" in title for title in seen)  # from the store
    assert any("methods alike, scores" in title for title in seen)


def test_within_a_figure_the_clock_moves_the_whole() -> None:
    """So the time left does not grow while a long figure, whose phases nobody has counted, is at work."""
    at: list[int] = []
    times = iter([0.0, 10.0, 30.0, 500.0, 80.0, 80.0, 120.0])
    steps = _Steps(Watch(lambda done, _: at.append(done)), 100.0, clock=lambda: next(times))
    steps.begin(40.0)
    for _ in range(3):
        steps.tick(0, 1)
    assert at == [100, 300, 380]  # never more than 95 % of what was guessed
    steps.end()
    steps.begin(60.0)
    steps.tick(0, 1)  # the first figure took twice its guess
    assert at[3:] == [400, 600]
