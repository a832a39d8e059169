"""Predictions: which heads, and what the measurement says about them, against scipy and plain evaluation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from headlens.errors import HeadlensError
from headlens.evaluate import Evaluation, Measured, evaluate
from headlens.heads import HeadSet
from headlens.interview.predict import JOINT, Trial, contrast, mark, measure, trial
from headlens.metrics import METRICS
from tests.unit.helpers import lens_for, random_data


def measured(changes: list[float], weights: list[float] | None = None) -> Measured:
    change = np.array(changes)
    weight = np.ones(len(changes)) if weights is None else np.array(weights)
    delta = float(change.sum() / weight.sum())
    return Measured(1.0, 1.0 + delta, 0.0, 0.0, 0.1, changes=change, weights=weight)


def evaluation(changes: list[float], off: str = "") -> Evaluation:
    return Evaluation("loss", "causal-lm", off, "zero", {"loss": measured(changes)}, len(changes), 100)


def test_the_contrast_is_a_paired_t_interval() -> None:
    rng = np.random.default_rng(0)
    first, second = rng.normal(0.3, 0.2, 9), rng.normal(0.1, 0.2, 9)
    gap, half = contrast(measured(list(first)), measured(list(second)))
    expected = stats.ttest_rel(first, second).confidence_interval(0.95)
    assert gap == pytest.approx((first - second).mean())
    assert (gap - half, gap + half) == pytest.approx((expected.low, expected.high))


def test_one_example_tells_nothing_apart() -> None:
    assert contrast(measured([5.0]), measured([0.0])) == (5.0, float("inf"))


def test_the_worst_head_wins_and_what_cannot_be_told_apart_counts_too() -> None:
    effects = {
        "L0H0": [1.0, 1.1, 0.9, 1.0],
        "L0H1": [0.1, 0.0, 0.1, 0.0],
        "L0H2": [1.4, 0.7, 1.2, 0.6],  # mean 0.975, scattered
    }
    lens, _ = lens_for("gpt2")
    outcome = measure(
        Trial(tuple(effects), tuple(effects)), lens.topology, lambda off: evaluation(effects[lens.topology.format(off)])
    )
    assert outcome.accepted == {0, 2}
    assert "L0H0 hurts most" in outcome.sentence
    assert "L0H2 cannot be told apart" in outcome.sentence
    assert mark(outcome, 0, 3).right
    assert mark(outcome, 2, 3).right
    assert not mark(outcome, 1, 3).right
    assert mark(outcome, 1, 3).counts


def test_a_tie_between_all_is_not_counted() -> None:
    lens, _ = lens_for("gpt2")
    outcome = measure(
        Trial(("L0H0", "L0H1", "L0H2"), ("L0H0", "L0H1", "L0H2")),
        lens.topology,
        lambda off: evaluation([0.1, -0.1, 0.05, -0.02] if 0 in [h.head for h in off] else [0.0, 0.0, 0.1, -0.1]),
    )
    assert outcome.accepted == {0, 1, 2}
    assert not mark(outcome, 1, 3).counts


@pytest.mark.parametrize(
    ("both", "answer"), [([3.0, 3.1, 2.9, 3.0], 0), ([2.0, 2.1, 1.9, 2.0], 1), ([1.0, 1.1, 0.9, 1.0], 2)]
)
def test_joint_effects_against_the_sum(both: list[float], answer: int) -> None:
    lens, _ = lens_for("gpt2")
    single = [1.0, 1.05, 0.95, 1.0]
    outcome = measure(
        Trial(("L1H0", "L1H2"), JOINT, joint=True),
        lens.topology,
        lambda off: evaluation(both if len(off) == 2 else single),
    )
    assert outcome.accepted == {answer}
    assert outcome.effects[2].label == "L1H0 and L1H2"
    assert JOINT[answer] in outcome.sentence


def test_measuring_is_evaluate() -> None:
    lens, _ = lens_for("gpt2")
    data = random_data("gpt2", 6)
    seen: list[tuple[int, int]] = []
    asked = trial(lens, "depths", 3)
    outcome = measure(
        asked,
        lens.topology,
        lambda off: evaluate(lens, data, off, metric=METRICS["loss"]),
        lambda done, total: seen.append((done, total)),
    )
    for effect in outcome.effects:
        found = evaluate(lens, data, lens.topology.parse(effect.label), metric=METRICS["loss"]).main
        assert (effect.change, effect.sem) == pytest.approx((found.delta, found.delta_sem))
    assert seen == [(1, 3), (2, 3), (3, 3)]


def test_what_evaluate_keeps_by_example_adds_up_to_its_change() -> None:
    lens, _ = lens_for("llama")
    data = random_data("llama", 5)
    found = evaluate(lens, data, lens.topology.parse("L1"), metric=METRICS["loss"]).main
    assert found.changes is not None
    assert found.weights is not None
    assert found.changes.sum() / found.weights.sum() == pytest.approx(found.delta)
    assert found.weights.sum() == data.tokens


@pytest.mark.parametrize("kind", ["gpt2", "llama", "t5", "bert-bare"])
@pytest.mark.parametrize("pick", ["depths", "sizes", "neighbours", "pair"])
def test_heads_are_drawn_by_the_seed_alone(kind: str, pick: str) -> None:
    lens, _ = lens_for(kind)
    first = trial(lens, pick, 7)  # type: ignore[arg-type]
    assert trial(lens, pick, 7) == first  # type: ignore[arg-type]
    assert len(first.heads) == (2 if pick == "pair" else 3)
    assert len(HeadSet.of(h for label in first.heads for h in lens.topology.parse(label))) == len(first.heads)
    layers = {label.partition("H")[0] for label in first.heads}
    if pick in ("neighbours", "pair"):
        assert len(layers) == 1
    if pick == "depths":
        assert len(layers) == 3
    if pick != "sizes":
        assert len({trial(lens, pick, seed).heads for seed in range(12)}) > 3  # type: ignore[arg-type]


def test_sizes_are_the_extremes_of_the_output_weights() -> None:
    lens, model = lens_for("gpt2")
    norms = {
        f"L{layer}H{head}": float(block.attn.c_proj.weight[4 * head : 4 * head + 4].detach().norm())  # type: ignore[union-attr]
        for layer, block in enumerate(model.transformer.h)  # type: ignore[union-attr, arg-type]
        for head in range(4)
    }
    ranked = sorted(norms, key=norms.__getitem__)
    assert set(trial(lens, "sizes", 0).heads) == {ranked[0], ranked[6], ranked[-1]}


def test_too_few_heads_are_told() -> None:
    from transformers import GPT2Config, GPT2LMHeadModel

    from tests.unit.helpers import open_lens

    lens = open_lens(GPT2LMHeadModel(GPT2Config(n_layer=1, n_head=1, n_embd=4, vocab_size=24)), "causal-lm")
    for pick in ("depths", "neighbours", "sizes", "pair"):
        with pytest.raises(HeadlensError, match="too few heads"):
            trial(lens, pick, 0)  # type: ignore[arg-type]
