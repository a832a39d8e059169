"""Scores of a model some of whose heads are off, against a copy of the model without them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from headlens.errors import HeadlensError
from headlens.heads import HeadSet
from headlens.importance import METHODS, Request
from headlens.importance.score import score
from headlens.metrics import METRICS, metric_for
from headlens.pruning.rescore import SwitchedLens, score_without
from headlens.store import Store
from headlens.switches import partners
from tests.unit.helpers import TASKS, Oracle, lens_for, open_lens, places, random_data

OFF = [("self", 0, 1), ("self", 1, 0), ("self", 1, 3)]
T5_OFF = [("enc", 0, 1), ("cross", 1, 2), ("dec", 2, 0)]


def off_of(lens: Any, labels: list[tuple[str, int, int]]) -> HeadSet:
    prefix = len(lens.topology.sites) > 1
    return lens.topology.parse(",".join(f"{s + '.' if prefix else ''}L{la}H{h}" for s, la, h in labels))


@pytest.mark.parametrize("method", ["ablation", "gradient", "fisher", "output-norm", "confidence"])
@pytest.mark.parametrize("kind", ["gpt2", "t5"])
def test_like_a_model_without_them(kind: str, method: str) -> None:
    lens, plain = lens_for(kind)
    data = random_data(kind, 4)
    labels = T5_OFF if kind == "t5" else OFF
    without = open_lens(Oracle(kind, plain).scaled(dict.fromkeys(labels, 0.0)), TASKS[kind])
    request = Request(METRICS["loss"], data)
    found = score_without(lens, METHODS[method], request, off_of(lens, labels))
    wanted = score(without, METHODS[method], request)
    for site, layer, head in places(kind):
        if (site, layer, head) not in labels:
            assert found.values[site][layer, head] == pytest.approx(wanted.values[site][layer, head], rel=1e-9)
            assert found.sem[site][layer, head] == pytest.approx(wanted.sem[site][layer, head], rel=1e-6)


@pytest.mark.parametrize(
    ("kind", "ablation", "metric"),
    [
        ("gpt2", "mean", "loss"),
        ("gpt2", "resample", "loss"),
        ("gpt2", "zero", "drift"),
        ("bert-bare", "zero", "drift"),
        ("bert-class", "zero", "accuracy"),
        ("gpt2", "mean", "accuracy"),
    ],
)
def test_exact_scores_refer_to_the_model_with_every_head_on(kind: str, ablation: Any, metric: str) -> None:
    lens, plain = lens_for(kind)
    oracle = Oracle(kind, plain)
    data = random_data(kind, 20 if metric == "accuracy" else 5)
    clean = oracle.outputs(data)
    partner = partners(data, 2).tolist()

    def value(off: list[tuple[str, int, int]]) -> float:
        return oracle.value(metric, data, oracle.replaced(data, off, ablation, partner), clean)

    base = value(OFF)
    request = Request(METRICS[metric], data, ablation=ablation, seed=2)
    found = score_without(lens, METHODS["ablation"], request, off_of(lens, OFF))
    sign = -1 if metric == "accuracy" else 1
    wanted = {
        (layer, head): sign * (value([*OFF, ("self", layer, head)]) - base) for layer, head in ((0, 0), (1, 1), (2, 3))
    }
    assert any(wanted.values()), "some head matters"
    for place, cost in wanted.items():
        assert found.array[place] == pytest.approx(cost, abs=1e-9)


def test_gradient_with_means_in_their_place() -> None:
    """The slope at a gate of one, by a difference quotient in a model whose other heads hold their means."""
    lens, _ = lens_for("gpt2")
    data = random_data("gpt2", 4)
    off = off_of(lens, OFF)
    request = Request(METRICS["loss"], data, ablation="mean", signed=True)
    found = score_without(lens, METHODS["gradient"], request, off)
    from headlens.metrics import readout, sums
    from headlens.run import Edit, Run
    from headlens.switches import gather

    means = gather(lens, data, "mean", list(off.by_layer())).means
    switched = SwitchedLens(lens, off, means)

    def loss(gate: float) -> float:
        gates = torch.ones(1, 4, dtype=torch.float64)
        gates[0, 2] = gate
        total = count = 0.0
        for batch in data.batches(2):
            values = readout(switched.forward(batch.inputs, Run(edits={("self", 1): Edit(gate=gates)})), lens.task)
            nll, tokens = sums(METRICS["loss"], values, batch)
            total, count = total + float(nll.sum()), count + float(tokens.sum())
        return total / count

    assert found.array[1, 2] == pytest.approx(-(loss(1 + 1e-5) - loss(1 - 1e-5)) / 2e-5, rel=1e-6)


def test_the_lens_itself_shows_all_heads(tmp_path: Any) -> None:
    lens, _ = lens_for("gpt2")
    data = random_data("gpt2", 3)
    batch = data.batch([0, 1])
    before = lens.forward(batch.inputs).logits
    off = off_of(lens, OFF)
    switched = SwitchedLens(lens, off)
    assert not torch.equal(switched.forward(batch.inputs).logits, before)
    assert torch.equal(lens.forward(batch.inputs).logits, before)
    assert switched.fingerprint != lens.fingerprint
    assert switched.fingerprint != SwitchedLens(lens, off_of(lens, OFF[:1])).fingerprint
    means = {place: torch.ones(4, 4, dtype=torch.float64) for place in off.by_layer()}
    assert switched.fingerprint != SwitchedLens(lens, off, means).fingerprint
    # One store for both: neither takes the other's numbers.
    request = Request(METRICS["loss"], data, store=Store(tmp_path))
    first = score(lens, METHODS["ablation"], request)
    second = score_without(lens, METHODS["ablation"], request, off)
    third = score_without(lens, METHODS["ablation"], request, off)
    assert not np.allclose(first.array, second.array)
    assert np.array_equal(second.array, third.array)
    assert third.provenance["cached"] == 3


def test_what_cannot_be_done_is_said() -> None:
    lens, _ = lens_for("gpt2")
    request = Request(metric_for(None, lens.task), random_data("gpt2", 4), ablation="resample")
    with pytest.raises(HeadlensError, match="resample"):
        score_without(lens, METHODS["gradient"], request, off_of(lens, OFF))
