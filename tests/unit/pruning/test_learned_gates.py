"""Learned gates: the distribution against simulation, the training on a model in which one head matters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from headlens.data.encode import EncodedData
from headlens.errors import Cancelled, HeadlensError
from headlens.lens import Lens
from headlens.metrics import METRICS, readout, sums
from headlens.pruning import gate_training
from headlens.pruning.gate_training import GateSpec, GateTraining
from headlens.pruning.hard_concrete import open_probability, sampled, settled
from headlens.pruning.learned_gates import LearnedGates, learn_gates, sweep_penalties
from headlens.pruning.plan import Steps
from headlens.run import Edit, Run
from headlens.store import Store
from tests.unit.helpers import lens_for, random_data
from tests.unit.importance.test_planted import planted, texts


@pytest.mark.parametrize("log_a", [-4.0, -1.5, -0.3, 0.0, 0.8, 2.0])
def test_probability_of_an_open_gate(log_a: float) -> None:
    noise = torch.from_numpy(np.random.default_rng(0).random((200_000, 1)))
    gates = sampled(torch.tensor([log_a], dtype=torch.float64), noise)
    assert float(gates.min()) >= 0
    assert float(gates.max()) <= 1
    drawn = float((gates != 0).double().mean())
    assert float(open_probability(torch.tensor(log_a, dtype=torch.float64))) == pytest.approx(drawn, abs=0.004)


def test_gates_without_noise() -> None:
    found = settled(torch.tensor([-10.0, -2.4, 0.0, 2.4, 10.0], dtype=torch.float64)).tolist()
    assert found == pytest.approx([0, 0, 0.5, 1, 1])
    assert 0 < float(settled(torch.tensor(-2.3))) < float(settled(torch.tensor(2.3))) < 1


def test_the_slope_of_the_expected_number_of_open_gates() -> None:
    log_a = torch.tensor([-1.0, 0.5], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: open_probability(x).sum(), log_a)
    noise = torch.tensor([[0.3, 0.6], [0.5, 0.4]], dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda x: sampled(x, noise).sum(), log_a)


def learned(penalty: float, seed: int = 0, steps: int = 140, **more: Any) -> LearnedGates:
    lens = planted()
    return learn_gates(lens, texts(), Steps(lens.topology), GateSpec(penalty, steps, seed), **more)


@pytest.mark.parametrize("seed", range(2))
def test_the_head_that_matters_stays(seed: int) -> None:
    found = learned(0.05, seed)
    lens = planted()
    assert found.off == lens.topology.heads() - lens.topology.parse("L1H1")
    assert found.undecided == 0
    assert found.expected_open[-1] < 1.3
    assert found.expected_open[0] == pytest.approx(6 * 0.94, abs=0.02)


def test_the_penalty_decides_how_many_go() -> None:
    lens = planted()
    found = sweep_penalties(lens, texts(), Steps(lens.topology), [0.0, 0.05, 50.0], count=140)
    # Without a penalty only heads close that do harm on these texts.
    off = [len(one.off) for one in found]
    assert off[0] < 4
    assert off[1:] == [5, 6]
    assert lens.topology.parse("L1H1").heads.isdisjoint(found[0].off.heads)
    assert [one.spec.penalty for one in found] == [0.0, 0.05, 50.0]


def test_floor_groups_and_sites() -> None:
    lens = planted()
    spec = GateSpec(10.0, 150)
    free = learn_gates(lens, texts(), Steps(lens.topology), spec)
    assert len(free.off) == 6
    floored = learn_gates(lens, texts(), Steps(lens.topology, floor=1), spec)
    assert sorted(len(labels) for labels in floored.off.by_layer().values()) == [1, 1, 1]
    assert "L1H1" not in lens.topology.format(floored.off)
    grouped, _ = lens_for("llama")
    found = learn_gates(grouped, random_data("llama", 4), Steps(grouped.topology, "kv"), GateSpec(50.0, 110))
    assert len(found.gates) == 6
    assert found.off == grouped.topology.heads()
    t5, _ = lens_for("t5")
    found = learn_gates(t5, random_data("t5", 4), Steps(t5.topology, sites=("cross",)), GateSpec(50.0, 110))
    assert {head.site for head in found.off} == {"cross"}
    assert len(found.off) == 12


def test_one_gate_for_a_group_and_none_for_other_sites() -> None:
    """The objective of a step, from gates drawn again and applied by hand."""
    for kind, unit, sites in (("llama", "kv", None), ("t5", "head", ("dec",))):
        lens, _ = lens_for(kind)
        data = random_data(kind, 4)
        steps = Steps(lens.topology, unit, sites)  # type: ignore[arg-type]
        training = GateTraining(lens, data, steps, GateSpec(0.1, seed=3), None)
        batch = training._batch(0)
        noise = np.random.default_rng([3, 0]).random((len(batch.indices), len(steps.columns)))
        gates = sampled(training.log_a.detach(), torch.from_numpy(noise))
        edits = {}
        for site, layer in dict.fromkeys(column[:2] for column in steps.columns):
            values = torch.ones(len(batch.indices), 4, dtype=torch.float64)
            for head in range(4):
                column = head // 2 if unit == "kv" else head
                values[:, head] = gates[:, steps.columns.index((site, layer, column))]
            edits[site, layer] = Edit(gate=values)
        with torch.no_grad():
            logits = readout(lens.forward(batch.inputs, Run(edits=edits)), lens.task)
            nll, count = sums(METRICS["loss"], logits, batch)
        training.step(0)
        assert training.objective[0] == pytest.approx(float(nll.sum() / count.sum()), rel=1e-12)


@pytest.mark.parametrize("kind", ["bert-bare", "bert-mlm", "bert-class"])
def test_every_task_has_an_objective(kind: str) -> None:
    lens, _ = lens_for(kind)
    before = lens.fingerprint
    found = learn_gates(lens, random_data(kind, 5), Steps(lens.topology), GateSpec(0.02, 40))
    assert np.isfinite(found.objective).all()
    assert len(found.objective) == len(found.expected_open) == 40
    assert not any(parameter.requires_grad or parameter.grad is not None for parameter in lens.model.parameters())
    del lens.__dict__["fingerprint"]
    assert lens.fingerprint == before


def test_seeds_decide() -> None:
    one, same, other = learned(0.05, 1, 30), learned(0.05, 1, 30), learned(0.05, 2, 30)
    assert np.array_equal(one.objective, same.objective)
    assert np.array_equal(one.gates, same.gates)
    assert not np.array_equal(one.gates, other.gates)


def test_stopped_and_resumed_to_the_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate_training, "CHECKPOINT", 10)
    monkeypatch.setattr("headlens.pruning.learned_gates.CHECKPOINT", 10)
    whole = learned(0.05, steps=35)
    store = Store(tmp_path)

    def stop(done: int, total: int) -> None:
        if done == 27:
            raise Cancelled

    with pytest.raises(Cancelled):
        learned(0.05, steps=35, store=store, on_progress=stop)
    seen: list[tuple[int, int]] = []
    again = learned(0.05, steps=35, store=store, on_progress=lambda *at: seen.append(at))
    assert (again.cached, seen[0], seen[-1]) == (20, (20, 35), (35, 35))
    assert np.array_equal(again.gates, whole.gates)
    assert np.array_equal(again.objective, whole.objective)
    assert np.array_equal(again.expected_open, whole.expected_open)
    longer = learned(0.05, steps=45, store=store)
    assert longer.cached in (30, 35)
    assert np.array_equal(longer.objective[:35], whole.objective)
    assert learned(0.05, steps=35, store=store, resume=False).cached == 0
    assert learned(0.06, steps=35, store=store).cached == 0


def test_the_order_of_the_examples_changes_nothing() -> None:
    lens, data = planted(), texts()
    turned = EncodedData(data.name, data.split, data.examples[::-1], data.pad, data.device)
    found = [learn_gates(lens, one, Steps(lens.topology), GateSpec(0.05, 30)) for one in (data, turned)]
    assert np.allclose(found[0].gates, found[1].gates, rtol=1e-9)


def test_bad_settings() -> None:
    for bad in (-1.0, float("nan"), float("inf")):
        with pytest.raises(HeadlensError, match="penalty"):
            GateSpec(bad)
    with pytest.raises(HeadlensError, match="at least 1"):
        GateSpec(0.1, 0)
    lens: Lens = planted()
    data = texts()
    broken = GateTraining(lens, data, Steps(lens.topology), GateSpec(0.1), None)
    with torch.no_grad():
        broken.log_a.fill_(float("nan"))
    with pytest.raises(HeadlensError, match="not finite at step 1"):
        broken.step(0)
