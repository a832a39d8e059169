"""One head set against all heads on, against deep copies measured by hand."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from headlens.errors import Cancelled
from headlens.evaluate import evaluate
from headlens.heads import HeadSet
from headlens.metrics import METRICS, metric_for
from headlens.switches import ABLATIONS, partners
from tests.unit.helpers import KINDS, TASKS, Oracle, core, lens_for, random_data

OFF = {"t5": "enc.L0H1,dec.L1H0-H2,cross.L2", **dict.fromkeys(set(KINDS) - {"t5"}, "L0H1,L1H0-H2,L2")}
FIELDS = [
    *("metric", "baseline", "value", "delta", "examples", "tokens", "perplexity_baseline", "perplexity"),
    *("accuracy_baseline", "accuracy", "kl"),
]


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_off_is_the_baseline_to_the_bit(kind: str) -> None:
    lens, _ = lens_for(kind)
    data = random_data(kind)
    for ablation in ABLATIONS:
        found = evaluate(lens, data, HeadSet(), metric=metric_for(None, lens.task), ablation=ablation, batch_size=2)
        for measured in found.measured.values():
            assert measured.value == measured.baseline
            assert measured.delta == 0
            assert measured.delta_sem == 0
        assert found.measured["drift"].value == 0
        assert found.off == "none"


@pytest.mark.parametrize("kind", KINDS)
def test_equals_deep_copies(kind: str) -> None:
    lens, plain = lens_for(kind)
    oracle, data = Oracle(kind, plain), random_data(kind)
    off = lens.topology.parse(OFF[kind])
    clean = oracle.outputs(data)
    metrics = ["drift"] if kind == "bert-bare" else list(METRICS)
    for ablation in ABLATIONS if kind in ("llama", "t5") else ("zero",):
        found = evaluate(lens, data, off, metric=METRICS[metrics[0]], ablation=ablation, seed=2, batch_size=2)
        places = [(head.site, head.layer, head.head) for head in off]
        # Every replacement comes from the pass with all heads on.
        after = oracle.replaced(data, places, ablation, partners(data, 2).tolist())
        assert list(found.measured) == metrics
        for name, measured in found.measured.items():
            before_sums = oracle.sums(name, data, clean, clean)
            after_sums = oracle.sums(name, data, after, clean)
            weight = before_sums[:, 1]
            assert measured.baseline == pytest.approx(before_sums[:, 0].sum() / weight.sum(), abs=1e-10)
            assert measured.value == pytest.approx(after_sums[:, 0].sum() / weight.sum(), abs=1e-10)
            difference = after_sums[:, 0] - before_sums[:, 0]
            rest = difference - weight * difference.sum() / weight.sum()
            n = int((weight > 0).sum())
            sem = math.sqrt(n / (n - 1) * (rest**2).sum()) / weight.sum()
            assert measured.delta_sem == pytest.approx(sem, abs=1e-9)
        assert found.measured["drift"].value > 1e-4


@pytest.mark.parametrize("kind", KINDS)
def test_the_object_has_every_field(kind: str) -> None:
    lens, _ = lens_for(kind)
    data = random_data(kind)
    text = OFF[kind]
    found = evaluate(lens, data, lens.topology.parse(text), metric=metric_for(None, lens.task))
    shown = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert set(FIELDS) <= set(shown)
    assert shown["examples"] == 5
    assert shown["tokens"] == sum(example.predicted for example in data.examples)
    assert shown["delta"] == shown["value"] - shown["baseline"]
    assert lens.topology.parse(shown["off"]) == lens.topology.parse(text)
    assert shown["metric"] == ("drift" if kind == "bert-bare" else "loss")
    if kind == "bert-bare":
        assert all(shown[name] is None for name in FIELDS[6:])
        assert shown["baseline"] == 0
        return
    assert shown["kl"] == found.measured["drift"].value > 0
    assert 0 <= shown["accuracy"] <= 1
    assert shown["accuracy_baseline"] == found.measured["accuracy"].baseline
    if TASKS[kind] == "text-classification":
        assert shown["perplexity"] is None
        assert shown["perplexity_baseline"] is None
    else:
        assert shown["perplexity"] == math.exp(shown["value"])
        assert shown["perplexity_baseline"] == math.exp(shown["baseline"])


def test_the_metric_that_was_asked_for_is_the_main_one() -> None:
    lens, _ = lens_for("gpt2")
    off = lens.topology.parse("L0H1")
    data = random_data("gpt2")
    for name in METRICS:
        found = evaluate(lens, data, off, metric=METRICS[name])
        shown = found.to_json()
        assert shown["metric"] == name
        assert shown["value"] == found.measured[name].value
        assert shown["perplexity"] == math.exp(found.measured["loss"].value)


@pytest.mark.parametrize("kind", ["gpt2", "t5", "bert-bare"])
def test_batch_size_order_and_padding_change_nothing(kind: str) -> None:
    lens, _ = lens_for(kind)
    data = random_data(kind)
    mixed = replace(data, examples=tuple(data.examples[i] for i in (3, 0, 4, 2, 1)), pad=9)
    off, metric = lens.topology.parse(OFF[kind]), metric_for(None, lens.task)
    for ablation in ABLATIONS:
        one = evaluate(lens, data, off, metric=metric, ablation=ablation, batch_size=1).measured
        for other in (
            evaluate(lens, data, off, metric=metric, ablation=ablation, batch_size=2).measured,
            evaluate(lens, mixed, off, metric=metric, ablation=ablation, batch_size=5).measured,
        ):
            for name, measured in one.items():
                for figure in ("baseline", "value", "baseline_sem", "sem", "delta_sem"):
                    assert getattr(other[name], figure) == pytest.approx(getattr(measured, figure), abs=1e-10)
                assert measured.changes is not None
                assert measured.weights is not None
                assert measured.delta == pytest.approx(measured.changes.sum() / measured.weights.sum(), abs=1e-10)


def test_a_broken_model_gives_null_and_not_a_broken_file() -> None:
    lens, _ = lens_for("gpt2")
    core(lens).wte.weight.data[1:] = float("inf")
    shown = evaluate(lens, random_data("gpt2"), lens.topology.parse("L0"), metric=METRICS["loss"]).to_json()
    assert shown["value"] is None
    json.dumps(shown, allow_nan=False)


def test_progress_and_cancelling() -> None:
    lens, _ = lens_for("gpt2")
    data = random_data("gpt2")
    calls: list[tuple[int, int]] = []
    evaluate(lens, data, HeadSet(), metric=METRICS["loss"], batch_size=2, on_progress=lambda d, t: calls.append((d, t)))
    assert calls == [(1, 3), (2, 3), (3, 3)]

    def cancel(done: int, total: int) -> None:
        raise Cancelled

    with pytest.raises(Cancelled):
        evaluate(lens, data, HeadSet(), metric=METRICS["loss"], on_progress=cancel)
