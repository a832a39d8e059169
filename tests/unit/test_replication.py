"""Rankings and curves on several sets, against scipy and against measuring one set at a time."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import spearmanr

from headlens.agreement import Correlation
from headlens.errors import Cancelled, HeadlensError
from headlens.evaluate import evaluate
from headlens.heads import Topology
from headlens.importance import METHODS, Request
from headlens.importance.score import score
from headlens.metrics import METRICS
from headlens.pruning.order import count_for, lowest
from headlens.replication import ceiling, encoded_sets, replication, scores_by_set, sets_for
from headlens.replication_curves import curve_replication, within_sizes
from headlens.scores import HeadScores
from tests.small_models import byte_tokenizer
from tests.unit.helpers import lens_for, open_lens, random_data


def made_up(values: np.ndarray, topology: Topology, reliability: float | None = 0.8, no_signal: str = "") -> HeadScores:
    array = {"self": values.reshape(3, 4)}
    nothing = {"self": np.full((3, 4), np.nan)}
    return HeadScores(topology, array, nothing, 9, "head", "made-up", reliability=reliability, no_signal=no_signal)


@pytest.fixture(scope="module")
def topology() -> Topology:
    return lens_for("gpt2")[0].topology


def test_correlations_and_ceilings(topology: Topology) -> None:
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=12), rng.normal(size=12)
    third = first + 0.2 * rng.normal(size=12)
    found = replication(
        {
            "a": made_up(first, topology, 0.9),
            "b": made_up(second, topology, 0.4),
            "c": made_up(third, topology, None),
        }
    )
    by_names = {(pair.agreement.first, pair.agreement.second): pair for pair in found.pairs}
    assert {*by_names} == {("a", "b"), ("a", "c"), ("b", "c")}
    for (one, two), values in {
        ("a", "b"): (first, second),
        ("a", "c"): (first, third),
        ("b", "c"): (second, third),
    }.items():
        pair = by_names[one, two]
        assert pair.rho.value == pytest.approx(float(spearmanr(*values).statistic))  # type: ignore[attr-defined]
        assert pair.rho.low <= pair.rho.value <= pair.rho.high
    assert by_names["a", "b"].ceiling == pytest.approx(math.sqrt(0.36))
    assert math.isnan(by_names["a", "c"].ceiling)
    assert found.weakest is min(found.pairs, key=lambda pair: pair.rho.value)
    assert "would reach about 0.60" in by_names["a", "b"].sentence()
    assert "too noisy to say" in by_names["a", "c"].sentence()
    assert found.sentence().startswith("3 rankings of the same heads: rank correlations from ")
    frame = found.to_frame()
    assert list(frame.columns)[:7] == ["first", "second", "heads", "rho", "low", "high", "ceiling"]
    assert set(found.to_json()["reliability"]) == {"a", "b", "c"}


def test_the_ceiling_is_what_noise_leaves() -> None:
    """Two noisy measurements of the same thing correlate about as the ceiling says."""
    rng = np.random.default_rng(1)
    truth = rng.normal(size=4000)
    noise = 0.7
    one, two = (truth + noise * rng.normal(size=4000) for _ in range(2))
    reliability = 1 / (1 + noise**2)
    rho = float(spearmanr(one, two).statistic)  # type: ignore[attr-defined]
    assert ceiling(reliability, reliability) == pytest.approx(reliability)
    assert rho == pytest.approx(ceiling(reliability, reliability), abs=0.04)
    assert math.isnan(ceiling(0.9, 0.1))
    assert ceiling(1.02, 1.0) == 1.0


def test_what_has_no_signal_is_left_out(topology: Topology) -> None:
    rng = np.random.default_rng(0)
    loud = {name: made_up(rng.normal(size=12), topology) for name in "ab"}
    silent = made_up(np.zeros(12), topology, no_signal="all scores are equal")
    found = replication({**loud, "c": silent})
    assert found.names == ("a", "b")
    assert found.no_signal == {"c": "all scores are equal"}
    with pytest.raises(HeadlensError, match="at least two rankings with a signal are needed, there is 1 \\(c: all"):
        replication({"a": loud["a"], "c": silent})


def small_lens() -> Any:
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    tokenizer = byte_tokenizer()
    sizes: dict[str, Any] = {
        "n_layer": 2,
        "n_head": 2,
        "n_embd": 16,
        "n_positions": 128,
        "bos_token_id": 1,
        "eos_token_id": 1,
    }
    model = GPT2LMHeadModel(GPT2Config(**sizes, vocab_size=len(tokenizer)))
    return open_lens(model, "causal-lm", tokenizer=tokenizer)


def test_which_sets_are_compared() -> None:
    lens = small_lens()
    every = sets_for(lens)
    assert list(every) == ["stories", "essays", "dialogue", "news", "letters", "code"]
    assert {half for _, half in every.values()} == {"score"}
    assert sets_for(lens, "held-out", ["news", "code", "news"]) == {
        "news": ("news", "held-out"),
        "code": ("code", "held-out"),
    }
    with pytest.raises(HeadlensError, match="at least two"):
        sets_for(lens, sets=["news"])
    lens.model.config.headlens_data = "small-english"
    assert list(sets_for(lens).values()) == [("small-english", "score"), ("small-english", "held-out")]


def test_scores_of_each_set_are_those_of_the_set_alone() -> None:
    lens = small_lens()
    data = encoded_sets(lens, sets_for(lens, sets=["stories", "code"]), limit=3)
    phases: list[str] = []
    found = scores_by_set(lens, METHODS["gradient"], data, metric=METRICS["loss"], on_phase=phases.append)
    assert phases == ["stories", "code"]
    for name, encoded in data.items():
        assert len(encoded) == 3
        alone = score(lens, METHODS["gradient"], Request(METRICS["loss"], encoded))
        np.testing.assert_array_equal(found[name].flat(), alone.flat())
    with pytest.raises(HeadlensError, match="looks at no data"):
        scores_by_set(lens, METHODS["magnitude"], data, metric=METRICS["loss"])


def test_transfer_is_measured_like_evaluate() -> None:
    lens, _ = lens_for("gpt2")
    data = {name: random_data("gpt2", 6, seed=seed) for name, seed in (("one", 1), ("two", 2))}
    scores = {name: score(lens, METHODS["gradient"], Request(METRICS["loss"], each)) for name, each in data.items()}
    found = curve_replication(lens, scores, data, metric="loss", fractions=(0.25, 0.5), random_orders=3)
    assert len(found.transfers) == 8
    for transfer in found.transfers:
        off = lowest(scores[transfer.chosen_on], count_for(transfer.fraction, 12))
        own = lowest(scores[transfer.measured_on], count_for(transfer.fraction, 12))
        alone = evaluate(lens, data[transfer.measured_on], off, metric=METRICS["loss"]).main
        other = evaluate(lens, data[transfer.measured_on], own, metric=METRICS["loss"]).main
        assert transfer.cost == pytest.approx(alone.delta)
        assert transfer.sem == pytest.approx(alone.delta_sem)
        assert transfer.extra == pytest.approx(alone.delta - other.delta, abs=1e-12)
        assert transfer.random_low <= transfer.random <= transfer.random_high
        if off == own:
            assert (transfer.extra, transfer.extra_sem) == pytest.approx((0, 0), abs=1e-12)
    random = [
        evaluate(
            lens,
            data["one"],
            lowest(score(lens, METHODS["random"], Request(METRICS["loss"], seed=seed)), 3),
            metric=METRICS["loss"],
        ).main.delta
        for seed in range(3)
    ]
    (first,) = [t for t in found.transfers if (t.chosen_on, t.measured_on, t.fraction) == ("one", "one", 0.25)]
    assert first.random == pytest.approx(np.mean(random))
    assert {*found.correlations} == {("one", "two")}
    assert "With 50 % of the heads off" in found.sentence()
    assert len(found.to_frame()) == 8


def test_accuracy_costs_have_their_sign_turned() -> None:
    lens, _ = lens_for("gpt2")
    data = {name: random_data("gpt2", 6, seed=seed) for name, seed in (("one", 1), ("two", 2))}
    scores = {name: score(lens, METHODS["gradient"], Request(METRICS["loss"], each)) for name, each in data.items()}
    found = curve_replication(lens, scores, data, metric="accuracy", fractions=(0.5,), random_orders=2)
    for transfer in found.transfers:
        off = lowest(scores[transfer.chosen_on], 6)
        alone = evaluate(lens, data[transfer.measured_on], off, metric=METRICS["accuracy"]).main
        assert transfer.cost == pytest.approx(alone.baseline - alone.value)


def test_orders_are_compared_within_a_size() -> None:
    """Larger sets cost more on both sides; the correlation must not come from that."""
    one = np.array([[1.0, 11, 21], [2, 12, 22], [3, 13, 23], [4, 14, 24]])
    other = np.array([[4.0, 11, 22], [3, 12, 21], [2, 13, 24], [1, 14, 23]])
    found = within_sizes(one, other)
    wanted = np.mean([float(spearmanr(one[:, k], other[:, k]).statistic) for k in range(3)])  # type: ignore[attr-defined]
    assert found.value == pytest.approx(wanted)
    assert float(spearmanr(one.ravel(), other.ravel()).statistic) > 0.9  # type: ignore[attr-defined]
    assert found.low <= found.value <= found.high
    assert within_sizes(one, one).value == pytest.approx(1.0)
    same = within_sizes(one, np.zeros_like(one))
    assert isinstance(same, Correlation)
    assert math.isnan(same.value)


def test_mistakes_and_cancelling() -> None:
    lens, _ = lens_for("gpt2")
    data = {name: random_data("gpt2", 4, seed=seed) for name, seed in (("one", 1), ("two", 2))}
    scores = {name: score(lens, METHODS["gradient"], Request(METRICS["loss"], each)) for name, each in data.items()}
    with pytest.raises(HeadlensError, match="at least two sets"):
        curve_replication(lens, {"one": scores["one"]}, data, metric="loss")
    with pytest.raises(HeadlensError, match="at least 2"):
        curve_replication(lens, scores, data, metric="loss", random_orders=1)
    with pytest.raises(HeadlensError, match="fraction"):
        curve_replication(lens, scores, data, metric="loss", fractions=(1.5,))

    def stop(done: int, total: int) -> None:
        raise Cancelled

    with pytest.raises(Cancelled):
        curve_replication(lens, scores, data, metric="loss", on_progress=stop)
