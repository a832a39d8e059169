"""The live set against the plain evaluation: the same numbers, from every thread, for every kind of model."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from headlens.evaluate import Evaluation, evaluate
from headlens.heads import HeadSet
from headlens.live import LiveEvaluator
from headlens.metrics import metric_for
from headlens.run import Run
from headlens.switches import ABLATIONS, Ablation
from tests.unit.helpers import KINDS, lens_for, random_data

OFF = {
    "t5": ["enc.L1H2", "dec.L2H0", "cross.L0H1,cross.L2", "enc.L0H0,dec.L1H3,cross.L1H1", "dec.L0H0-H2", "cross.L2H3"],
}
ONE_SITE = ["none", "L0H1", "L2H3", "L1", "L0H0,L2H1-H3", "L0,L1,L2"]


def assert_same(found: Evaluation, wanted: Evaluation) -> None:
    assert (found.off, found.ablation, found.metric) == (wanted.off, wanted.ablation, wanted.metric)
    assert (found.examples, found.tokens) == (wanted.examples, wanted.tokens)
    assert found.measured.keys() == wanted.measured.keys()
    for name, one in found.measured.items():
        other = wanted.measured[name]
        for field, value in vars(one).items():
            assert value == pytest.approx(getattr(other, field), rel=1e-9, abs=1e-11), (name, field)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ablation", ABLATIONS)
def test_equals_evaluate(kind: str, ablation: Ablation) -> None:
    lens, _ = lens_for(kind)
    data = random_data(kind, 9)  # two batches: of 8 and of 1
    live = LiveEvaluator(lens, data)
    metric = metric_for(None, lens.task)
    for labels in OFF.get(kind, ONE_SITE):
        off = lens.topology.parse(labels)
        wanted = evaluate(lens, data, off, metric=metric, ablation=ablation, seed=3)
        assert_same(live.evaluate(off, metric=metric, ablation=ablation, seed=3), wanted)


def test_blocks_below_the_lowest_switch_are_not_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    lens, _ = lens_for("t5")
    live = LiveEvaluator(lens, random_data("t5", 3))
    computed: list[tuple[str, int]] = []
    forward = lens.forward

    def watched(inputs: dict, run: Run) -> object:
        run.on_block = lambda stack, index, output: computed.append((stack, index))
        return forward(inputs, run)

    monkeypatch.setattr(lens, "forward", watched)
    every = [("dec", 0), ("dec", 1), ("dec", 2)]
    for labels, wanted in {
        "dec.L2H0": [("dec", 2)],
        "cross.L1H0,dec.L2H0": [("dec", 1), ("dec", 2)],
        "enc.L2H0,dec.L2H0": [("enc", 2), *every],  # the decoder reads the encoder in every block
        "enc.L0H0": [("enc", 0), ("enc", 1), ("enc", 2), *every],
        "none": [],
    }.items():
        computed.clear()
        live.evaluate(lens.topology.parse(labels), metric=metric_for(None, lens.task))
        assert computed == wanted


@pytest.mark.parametrize("kind", ["llama", "t5"])
def test_four_threads_at_once(kind: str) -> None:
    lens, _ = lens_for(kind)
    data = random_data(kind, 5)
    live = LiveEvaluator(lens, data)
    metric = metric_for(None, lens.task)
    jobs: list[tuple[HeadSet, Ablation]] = []
    for number, head in enumerate(list(lens.topology.heads())[::3]):
        for turn in range(3):
            jobs.append((HeadSet.of([head]), ABLATIONS[(number + turn) % 3]))
    wanted = [evaluate(lens, data, off, metric=metric, ablation=kind_of) for off, kind_of in jobs]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda job: live.evaluate(job[0], metric=metric, ablation=job[1]), jobs))
    for one, other in zip(found, wanted, strict=True):
        assert_same(one, other)
    assert len({round(one.main.value, 12) for one in found}) > len(jobs) // 2  # they are not all the same number


def test_a_toggle_leaves_the_kept_outputs_as_they_were() -> None:
    lens, _ = lens_for("gpt2")
    live = LiveEvaluator(lens, random_data("gpt2", 4))
    off, metric = lens.topology.parse("L0H0,L2H1"), metric_for("loss", lens.task)
    first = live.evaluate(off, metric=metric)
    for labels in ("L2H1", "L1", "none"):
        live.evaluate(lens.topology.parse(labels), metric=metric, ablation="mean")
    assert live.evaluate(off, metric=metric) == first


def test_nbytes_counts_each_tensor_once() -> None:
    lens, _ = lens_for("gpt2")
    data = random_data("gpt2", 4)
    live = LiveEvaluator(lens, data)
    rows, length = len(data), max(example.length for example in data.examples)
    blocks = 3 * rows * length * 16 * 8  # three blocks, 16 wide, float64
    assert live.nbytes == blocks + data.tokens * 24 * 8
    t5, _ = lens_for("t5")
    kept = LiveEvaluator(t5, random_data("t5", 3)).nbytes
    assert 0 < kept < 200_000


def test_the_metric_that_was_asked_for_comes_first() -> None:
    lens, _ = lens_for("bert-class")
    live = LiveEvaluator(lens, random_data("bert-class", 4))
    found = live.evaluate(lens.topology.parse("L0"), metric=metric_for("accuracy", lens.task))
    assert found.main is found.measured["accuracy"]
    assert np.isfinite(found.main.value)
