"""Benchmarks: what is compared, in which order it is run, and what is said about the times."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import numpy as np
import pytest

from headlens.errors import Cancelled, HeadlensError
from headlens.heads import HeadSet, LayerShape, SiteShape, Topology
from headlens.pruning.benchmark import BenchmarkSpec, Sizes, Variant, measure, missing_heads, sizes, variants
from headlens.pruning.benchmark_notes import PUBLISHED, describe, notes
from headlens.pruning.timing import Change, change, spread, within_noise
from headlens.pruning.workloads import Workload
from tests.unit.helpers import lens_for, open_lens


def topology(*layers: tuple[int, ...], original: int = 4, d_head: int = 4) -> Topology:
    kv = tuple(range(original))
    return Topology((SiteShape("self", tuple(LayerShape(h, original, kv, d_head, len(h), True) for h in layers)),))


FULL = topology((0, 1, 2, 3), (0, 1, 2, 3))


def test_heads_that_a_cut_lacks() -> None:
    cut = topology((0, 3), ())
    missing = missing_heads(FULL, cut)
    assert missing is not None
    assert FULL.format(missing) == "L0H1,L0H2,L1"
    assert missing_heads(FULL, FULL) == HeadSet()
    assert missing_heads(cut, FULL) is None
    assert missing_heads(topology((0, 1, 2)), topology((0, 3))) is None
    assert missing_heads(FULL, topology((0, 1), (0,), (0,))) is None
    assert missing_heads(FULL, topology((0, 1), (0,), d_head=8)) is None
    assert missing_heads(FULL, topology((0, 1), (0,), original=2)) is None


def test_what_is_compared() -> None:
    lens, _ = lens_for("gpt2")
    other, _ = lens_for("gpt2", seed=1)
    wide, _ = lens_for("bert-bare")
    off = lens.topology.parse("L0H1")
    assert [(v.name, len(v.off)) for v in variants(lens)] == [("full", 0), ("full again", 0)]
    assert [(v.name, len(v.off)) for v in variants(lens, off=off)][2:] == [("masked", 1)]
    assert [v.name for v in variants(lens, other)][2:] == ["cut"]  # all heads are there: nothing to mask
    assert [v.name for v in variants(lens, other, off)][2:] == ["masked", "cut"]
    assert [v.name for v in variants(wide, open_lens_of_other_shape())][2:] == ["other"]


def open_lens_of_other_shape() -> Any:
    from transformers import BertConfig, BertModel

    config = BertConfig(num_hidden_layers=1, num_attention_heads=2, hidden_size=8, intermediate_size=8, vocab_size=24)
    return open_lens(BertModel(config), "embedding")


class Made:
    """Times that are known: the full model takes 1, the masked 1.2, the cut 0.5, each with 1 % of noise."""

    factors = (("masked", 1.2), ("cut", 0.5))

    def __init__(self, monkeypatch: pytest.MonkeyPatch, noise: float = 0.01) -> None:
        self.order: list[tuple[int, int, int]] = []
        rng = np.random.default_rng(0)
        made = self

        def timed(self: Workload) -> dict[str, float]:
            made.order.append((self.shape.batch, id(self.lens), 0 if self.run is None else 1))
            factor = 1.2 if self.run is not None else 0.5 if self.lens is made.cut else 1.0
            drawn = factor * rng.normal(1, noise, 2)
            return {"prefill": float(drawn[0]), "decode": float(drawn[1]) / 10}

        self.cut: Any = None
        monkeypatch.setattr(Workload, "measure", timed)
        monkeypatch.setattr(Workload, "warm_up", lambda self: None)


def test_rounds_are_interleaved_and_changes_found(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Made(monkeypatch)
    lens, _ = lens_for("gpt2")
    made.cut, _ = lens_for("gpt2", seed=1)
    found = variants(lens, made.cut, lens.topology.parse("L0"))
    seen: list[tuple[int, int]] = []
    timings = measure(found, BenchmarkSpec((1, 4), 8, 4, 2), on_progress=lambda *at: seen.append(at))
    assert (seen[0], seen[-1]) == ((0, 72), (72, 72))
    each = [made.order[start : start + 4] for start in range(0, 64, 4)]
    assert all(len({batch for batch, _, _ in one}) == 1 for one in each)
    assert all(Counter(one) == Counter(each[0]) or one[0][0] != each[0][0][0] for one in each)
    assert len({tuple(one) for one in each}) > 8, "the order within a round is drawn anew"
    rows = {(t.variant, t.phase, t.batch): t for t in timings}
    assert list(rows) == [
        (name, phase, batch)
        for phase, batch, name in itertools.product(
            ("prefill", "decode"), (1, 4), ("full", "full again", "masked", "cut")
        )
    ]
    for phase, batch in itertools.product(("prefill", "decode"), (1, 4)):
        assert rows["full", phase, batch].change is None
        assert rows["full again", phase, batch].noise is None
        masked, cut = rows["masked", phase, batch], rows["cut", phase, batch]
        assert masked.change is not None
        assert cut.change is not None
        assert masked.change.value == pytest.approx(0.2, abs=0.03)
        assert cut.change.value == pytest.approx(-0.5, abs=0.03)
        assert (masked.noise, cut.noise) == (False, False)
        assert len(cut.seconds) == 8
    assert rows["full", "prefill", 4].per_second == pytest.approx(16, rel=0.03)
    assert rows["full", "decode", 4].per_second == pytest.approx(40, rel=0.03)


def test_noise_is_called_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Made(monkeypatch, noise=0.3)
    lens, _ = lens_for("gpt2")
    made.cut = None
    other, _ = lens_for("gpt2", seed=1)
    timings = measure(variants(lens, other), BenchmarkSpec((1,), 10, 4, 2))
    assert [t.noise for t in timings if t.variant == "cut"] == [True, True]
    (said, *_) = notes(timings, {})
    assert said == "The cut model: every difference from the full one is within noise."


def test_spread_and_change() -> None:
    seconds = [3.0, 1.0, 2.0, 5.0, 4.0]
    assert (spread(seconds).low, spread(seconds).median, spread(seconds).high) == (2, 3, 4)
    twice = change([2 * x for x in seconds], seconds)
    assert (twice.value, twice.low, twice.high) == (1, 1, 1)
    assert twice.clear
    rng = np.random.default_rng(1)
    covered = 0
    for trial in range(300):
        base = rng.lognormal(0, 0.5, 15)
        found = change((base * 1.1 * rng.lognormal(0, 0.1, 15)).tolist(), base.tolist(), seed=trial)
        covered += found.low <= 0.1 <= found.high
    assert covered / 300 > 0.9


def test_noise_needs_more_than_an_interval() -> None:
    real = Change(-0.1, -0.15, -0.05)
    assert not within_noise(real, Change(0.0, -0.02, 0.02))
    assert within_noise(real, Change(0.0, -0.02, 0.3))
    assert within_noise(Change(-0.1, -0.3, 0.01), Change(0.0, -0.02, 0.02))


def test_what_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Made(monkeypatch)
    lens, _ = lens_for("gpt2")
    made.cut, _ = lens_for("gpt2", seed=1)
    timings = measure(variants(lens, made.cut, lens.topology.parse("L0")), BenchmarkSpec((1,), 8, 4, 2))
    known = {"full": Sizes(1000, 4000, 5000, 400, None), "masked": Sizes(1000, 4000, 5000, 400, None)}
    known["cut"] = Sizes(800, 3200, 4000, 300, None)
    found = describe(timings, known)
    text = " ".join(found["notes"])
    assert "The cut model against the full one: prefill at batch 1 -5" in text
    assert "Masking saves nothing" in text
    assert "20.0 % of the parameters and 25.0 % of the KV cache less" in text
    assert "At batch 1 little is to be expected" in text
    assert "+1.9 % at batch 1, +2.7 % at batch 4, +17.5 % at batch 16" in text
    assert found["published"] is PUBLISHED
    assert "Michel" in PUBLISHED["source"]
    for number, batch in enumerate(PUBLISHED["batch_sizes"]):
        gain = 100 * (PUBLISHED["cut"][number] / PUBLISHED["full"][number] - 1)
        assert gain == pytest.approx(PUBLISHED["gain_percent"][number], abs=0.15), batch
    row = next(one for one in found["latency"] if one["variant"] == "cut" and one["phase"] == "decode")
    assert row["within_noise"] is False
    assert row["sentence"].endswith(": faster")
    assert found["variants"][2]["bytes"] == 4000


def test_sizes() -> None:
    lens, plain = lens_for("llama")
    found = sizes(Variant("full", lens), bytes_on_disk=7)
    assert found.parameters == sum(p.numel() for p in plain.parameters())
    assert found.bytes_in_memory == 8 * found.parameters
    assert (found.bytes_on_disk, found.memory) == (7, None)


def test_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    Made(monkeypatch)
    lens, _ = lens_for("gpt2")

    def stop(done: int, total: int) -> None:
        if done == 3:
            raise Cancelled

    with pytest.raises(Cancelled):
        measure(variants(lens), BenchmarkSpec((1,), 3, 4, 2), on_progress=stop)


@pytest.mark.parametrize("bad", [{"batch_sizes": ()}, {"batch_sizes": (0,)}, {"repeats": 2}, {"prompt": 0}, {"new": 0}])
def test_bad_settings(bad: dict[str, Any]) -> None:
    with pytest.raises(HeadlensError):
        BenchmarkSpec(**bad)
