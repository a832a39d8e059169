"""Every layer with one head alone, against a loop over models whose other heads are zeroed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headlens.errors import HeadlensError
from headlens.metrics import METRICS
from headlens.pruning.all_but_one import all_but_one
from headlens.store import Store
from headlens.switches import partners
from tests.unit.helpers import HEADS, LAYERS, SITES, Oracle, lens_for, random_data
from tests.unit.importance.test_planted import planted, texts


@pytest.mark.parametrize(
    ("kind", "metric", "ablation"),
    [
        ("gpt2", "loss", "zero"),
        ("gpt2", "loss", "mean"),
        ("gpt2", "drift", "resample"),
        ("t5", "loss", "zero"),
        ("bert-bare", "drift", "zero"),
        ("bert-class", "accuracy", "zero"),
    ],
)
def test_the_best_on_one_half_and_its_cost_on_the_other(kind: str, metric: str, ablation: Any) -> None:
    lens, plain = lens_for(kind)
    oracle = Oracle(kind, plain)
    halves = random_data(kind, 4), random_data(kind, 5, seed=1)
    found = all_but_one(lens, *halves, METRICS[metric], ablation=ablation, seed=2)
    assert found.held_out
    sign = -1 if metric == "accuracy" else 1

    def cost(half: int, site: str, layer: int, kept: int) -> float:
        data = halves[half]
        off = [(site, layer, head) for head in range(HEADS) if head != kept]
        clean = oracle.outputs(data)
        partner = partners(data, 2).tolist()
        after = oracle.value(metric, data, oracle.replaced(data, off, ablation, partner), clean)
        return sign * (after - oracle.value(metric, data, clean, clean))

    sites = SITES.get(kind, ("self",))
    assert [(one.site, one.layer) for one in found.layers] == [(s, la) for s in sites for la in range(LAYERS)]
    for one in found.layers if kind == "gpt2" else found.layers[::2]:
        costs = [cost(0, one.site, one.layer, head) for head in range(HEADS)]
        best = min(range(HEADS), key=lambda head: (round(costs[head], 9), head))
        assert one.kept.endswith(f"L{one.layer}H{best}")
        assert one.score_cost == pytest.approx(costs[best], abs=1e-9)
        assert one.cost == pytest.approx(cost(1, one.site, one.layer, best), abs=1e-9)
        assert one.result.delta_sem >= 0
        assert one.control != one.kept
        control = int(one.control.rsplit("H", 1)[1])
        assert sign * one.control_result.delta == pytest.approx(cost(1, one.site, one.layer, control), abs=1e-9)


def test_the_planted_head_is_the_one_that_stays() -> None:
    lens, data = planted(), texts()
    found = all_but_one(lens, data, data, METRICS["loss"])
    (one,) = [layer for layer in found.layers if layer.layer == 1]
    assert one.kept == "L1H1"
    assert one.control == "L1H0"
    assert abs(one.cost) < 0.05 < one.control_result.delta
    assert not found.held_out
    assert "with one head alone" in found.sentence()


def test_groups_and_sites(tmp_path: Path) -> None:
    lens, _ = lens_for("llama")
    halves = random_data("llama", 3), random_data("llama", 3, seed=1)
    found = all_but_one(lens, *halves, METRICS["loss"], unit="kv")
    assert {one.heads for one in found.layers} == {2}
    assert {one.kept[-2:] for one in found.layers} <= {"G0", "G1"}
    lens, _ = lens_for("t5")
    halves = random_data("t5", 3), random_data("t5", 3, seed=1)
    store = Store(tmp_path)
    found = all_but_one(lens, *halves, METRICS["loss"], sites=("cross",), store=store)
    assert [one.site for one in found.layers] == ["cross"] * LAYERS
    assert found.layers[0].kept.startswith("cross.L0H")
    seen: list[tuple[int, int]] = []
    again = all_but_one(
        lens, *halves, METRICS["loss"], sites=("cross",), store=store, on_progress=lambda *at: seen.append(at)
    )
    assert again == found
    assert seen


def test_table() -> None:
    lens, _ = lens_for("gpt2")
    found = all_but_one(lens, random_data("gpt2", 3), random_data("gpt2", 3, seed=1), METRICS["loss"])
    frame = found.to_frame()
    assert list(frame.columns) == [
        *("site", "layer", "heads", "kept", "loss", "delta", "sem", "noticeable"),
        *("delta_score_half", "control", "control_delta", "control_sem"),
    ]
    assert frame.delta.tolist() == [one.result.delta for one in found.layers]


def test_layers_of_one_head_have_nothing_to_leave_out() -> None:
    from transformers import GPT2Config, GPT2LMHeadModel

    from tests.unit.helpers import open_lens

    config = GPT2Config(n_layer=2, n_head=1, n_embd=8, n_positions=16, vocab_size=24)
    lens = open_lens(GPT2LMHeadModel(config), "causal-lm")
    with pytest.raises(HeadlensError, match="no layer here has more than one head"):
        all_but_one(lens, random_data("gpt2", 3), random_data("gpt2", 3), METRICS["loss"])
