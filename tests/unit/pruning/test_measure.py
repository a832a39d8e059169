"""Many head sets at once: the same bits as one ``evaluate`` for each, with one pass a set."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headlens.errors import Cancelled, StoreError
from headlens.evaluate import evaluate
from headlens.heads import HeadSet
from headlens.metrics import metric_for
from headlens.pruning import measure as measuring
from headlens.pruning.figures import perplexity
from headlens.pruning.measure import SetMeasure
from headlens.store import Store
from tests.unit.helpers import KINDS, lens_for, random_data


def some_sets(lens: Any) -> list[HeadSet]:
    heads = list(lens.topology.heads())
    return [HeadSet.of(heads[:3]), HeadSet.of(heads[2::3]), HeadSet.of(heads), HeadSet(), HeadSet.of(heads[:3])]


@pytest.mark.parametrize("ablation", ["zero", "mean", "resample"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_numbers_of_evaluate_to_the_bit(kind: str, ablation: Any) -> None:
    lens, _ = lens_for(kind)
    data = random_data(kind, 11)
    metric = metric_for(None, lens.task)
    sets = some_sets(lens)
    found = SetMeasure(lens, data, metric=metric.name, ablation=ablation, seed=3).measure(sets)
    assert len(found) == 4
    for off in sets:
        wanted = evaluate(lens, data, off, metric=metric, ablation=ablation, seed=3)
        assert found[off].evaluation.to_json() == wanted.to_json()
        for name, one in wanted.measured.items():
            assert found[off].figure(name) == one
    words = lens.task in ("causal-lm", "masked-lm", "seq2seq")
    assert (found[HeadSet()].perplexity is not None) == words


def test_figures_by_name() -> None:
    lens, _ = lens_for("gpt2")
    (none, found) = SetMeasure(lens, random_data("gpt2"), metric="loss").measure(some_sets(lens)[:1]).values()
    json = found.evaluation.to_json()
    assert found.need("perplexity").value == pytest.approx(json["perplexity"], rel=1e-12)
    assert found.need("perplexity").baseline == pytest.approx(json["perplexity_baseline"], rel=1e-12)
    assert found.need("kl").value == json["kl"]
    assert (none.need("perplexity").delta, none.need("perplexity").delta_sem) == (0, 0)
    assert found.figure("bleu") is None


def test_one_pass_a_set_and_the_clean_one(monkeypatch: pytest.MonkeyPatch) -> None:
    lens, _ = lens_for("gpt2")
    data = random_data("gpt2", 10)
    rows = []
    plain = lens.forward
    monkeypatch.setattr(
        lens, "forward", lambda inputs, run: rows.append(len(inputs["input_ids"])) or plain(inputs, run)
    )
    seen: list[tuple[int, int]] = []
    work = SetMeasure(lens, data, metric="loss", on_progress=lambda *at: seen.append(at))
    work.measure(some_sets(lens))
    assert sum(rows) == 4 * len(data)
    assert work.passes == 4
    assert seen[-1] == (40, 40)
    assert seen == sorted(seen)


@pytest.mark.parametrize("kind", ["gpt2", "t5"])
def test_portions_change_nothing(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lens, _ = lens_for(kind)
    data = random_data(kind, 9)
    sets = some_sets(lens)
    whole = SetMeasure(lens, data, metric="loss", batch_size=2).measure(sets)
    monkeypatch.setattr(measuring, "REFERENCE_BYTES", 1)
    order: list[HeadSet] = []
    parts = SetMeasure(lens, data, metric="loss", batch_size=2)
    found = parts.measure(sets, lambda result: order.append(result.off))
    assert len(parts.portions()) == 5
    assert parts.passes == pytest.approx(4)
    assert list(found) == order
    for off, result in found.items():
        assert result.evaluation.to_json() == whole[off].evaluation.to_json()


@pytest.mark.parametrize("portion", [1, 2**30])
def test_cancelled_work_goes_on_where_it_was(portion: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lens, _ = lens_for("gpt2")
    data = random_data("gpt2", 6)
    sets = some_sets(lens)
    monkeypatch.setattr(measuring, "REFERENCE_BYTES", portion)
    more: dict[str, Any] = {"metric": "loss", "batch_size": 3, "store": Store(tmp_path)}

    def stop(done: int, total: int) -> None:
        if done >= 12:
            raise Cancelled

    with pytest.raises(Cancelled):
        SetMeasure(lens, data, on_progress=stop, **more).measure(sets)
    second = SetMeasure(lens, data, **more)
    found = second.measure(sets)
    assert second.cached > 0
    fresh = SetMeasure(lens, data, metric="loss", batch_size=3).measure(sets)
    assert {off: r.evaluation.to_json() for off, r in found.items()} == {
        off: r.evaluation.to_json() for off, r in fresh.items()
    }
    third = SetMeasure(lens, data, **more)
    assert third.measure(sets).keys() == found.keys()
    assert third.passes == 0
    fourth = SetMeasure(lens, data, resume=False, **more)
    fourth.measure(sets)
    assert (fourth.cached, fourth.passes) == (0, pytest.approx(4))


def test_the_store_tells_settings_apart(tmp_path: Path) -> None:
    lens, _ = lens_for("gpt2")
    data = random_data("gpt2", 4)
    off = some_sets(lens)[0]

    def cached(**more: Any) -> int:
        work = SetMeasure(lens, data, **{"metric": "loss", "store": Store(tmp_path), **more})
        work.measure([off])
        return work.cached

    assert cached() == 0
    assert cached(metric="accuracy", seed=5) == 2  # neither changes a zero-ablated number
    assert cached(ablation="mean") == 1  # the clean one is there
    assert cached(ablation="resample", seed=1) == 1
    assert cached(ablation="resample", seed=2) == 1
    assert cached(ablation="resample", seed=2) == 2
    other, _ = lens_for("gpt2", seed=1)
    work = SetMeasure(other, data, metric="loss", store=Store(tmp_path))
    work.measure([off])
    assert work.cached == 0


def test_a_full_disk_does_not_lose_the_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lens, _ = lens_for("gpt2")

    def full(*_: Any) -> None:
        raise StoreError("the disk is full")

    monkeypatch.setattr(Store, "put", full)
    work = SetMeasure(lens, random_data("gpt2", 4), metric="loss", store=Store(tmp_path))
    assert len(work.measure(some_sets(lens))) == 4


def test_error_of_the_perplexity() -> None:
    """Against the jackknife, which knows nothing of linearisation."""
    rng = np.random.default_rng(0)
    weight = rng.integers(5, 15, 400).astype(float)
    before = weight * rng.normal(2.0, 0.3, 400)
    after = before + weight * rng.normal(0.2, 0.1, 400)

    def values(keep: np.ndarray) -> np.ndarray:
        one, two = (np.exp(nll[keep].sum() / weight[keep].sum()) for nll in (before, after))
        return np.array([one, two, two - one])

    everything = np.ones(400, dtype=bool)
    left_out = []
    for row in range(400):
        keep = everything.copy()
        keep[row] = False
        left_out.append(values(keep))
    spread = np.array(left_out)
    jackknife = np.sqrt(399 / 400 * ((spread - spread.mean(0)) ** 2).sum(0))
    found = perplexity(before, after, weight)
    assert [found.baseline, found.value, found.delta] == pytest.approx(values(everything).tolist(), rel=1e-12)
    assert [found.baseline_sem, found.sem, found.delta_sem] == pytest.approx(jackknife.tolist(), rel=0.01)
