"""Joint effects against sums: the three verdicts, the errors and the sign of the metric."""

from __future__ import annotations

import math

import numpy as np
import pytest

from headlens.errors import HeadlensError
from headlens.evaluate import Measured, evaluate
from headlens.heads import Head, HeadSet
from headlens.metrics import metric_for, ratio
from headlens.redundancy import joint_against_sum
from tests.unit.helpers import lens_for, random_data

ONE, TWO = Head("self", 0, 1), Head("self", 2, 3)
WEIGHTS = np.array([3.0, 5.0, 2.0, 6.0])
NOISE = np.array([0.3, -0.5, 0.6, -0.4])  # sums to 0


def measured(delta: float, noise: float = 0.0) -> Measured:
    """An effect of ``delta`` in every prediction, and noise that differs from example to example."""
    changes = delta * WEIGHTS + noise * NOISE
    value, sem = ratio(changes, WEIGHTS)
    return Measured(2.0, 2.0 + float(value), 0.1, 0.1, float(sem), changes=changes, weights=WEIGHTS)


SINGLE = {ONE: measured(0.10, 1.0), TWO: measured(0.20, 0.5)}


def standard_error(noise: float) -> float:
    """Of the mean change of a prediction, by the formula of Cochran 6.4 written out."""
    residual = noise * NOISE - 0.0 * WEIGHTS
    return math.sqrt(4 / 3 * sum(r * r for r in residual)) / 16


def test_more_than_the_sum_is_backup() -> None:
    found = joint_against_sum(SINGLE, measured(0.9, 3.5))
    assert found.verdict == "backup"
    assert found.sum == pytest.approx(0.3)
    assert found.sum_sem == pytest.approx(standard_error(1.5))
    assert found.difference == pytest.approx(0.6)
    assert found.difference_sem == pytest.approx(standard_error(2.0))
    assert found.sentence() == (
        "One at a time the 2 heads cost 0.300 ± 0.100 nats in sum, all at once 0.900 ± 0.234 nats: "
        "0.600 nats more than the sum, so they back each other up, and single scores hide what they do."
    )


def test_less_than_the_sum_is_overlap() -> None:
    found = joint_against_sum(SINGLE, measured(0.02))
    assert (found.verdict, round(found.difference, 6)) == ("overlap", -0.28)
    assert "0.280 nats less than the sum, so their damage overlaps" in found.sentence()


def test_within_two_standard_errors_is_additive() -> None:
    edge = 2 * standard_error(2.0)
    for delta in (0.3, 0.3 + 0.99 * edge, 0.3 - 0.99 * edge):
        assert joint_against_sum(SINGLE, measured(delta, 3.5)).verdict == "additive"
    assert "within 2 standard errors (0.134)" in joint_against_sum(SINGLE, measured(0.4, 3.5)).sentence()
    assert joint_against_sum(SINGLE, measured(0.3 + 1.01 * edge, 3.5)).verdict == "backup"
    assert joint_against_sum(SINGLE, measured(0.3 - 1.01 * edge, 3.5)).verdict == "overlap"


def test_noise_that_all_effects_share_does_not_hide_a_difference() -> None:
    found = joint_against_sum(SINGLE, measured(0.31, 1.5))
    assert found.difference_sem == pytest.approx(0, abs=1e-12)
    assert found.verdict == "backup"


def test_a_metric_where_higher_is_better_turns_the_sign() -> None:
    found = joint_against_sum(
        {ONE: measured(-0.1), TWO: measured(-0.2)}, measured(-0.9), higher_is_better=True, unit=""
    )
    assert (found.verdict, found.sum, found.joint) == ("backup", pytest.approx(0.3), pytest.approx(0.9))
    assert "nats" not in found.sentence()


def test_one_head_and_one_example_say_nothing() -> None:
    assert joint_against_sum({ONE: measured(0.1)}, measured(0.5)).verdict == "one head"
    alone = Measured(2.0, 2.1, 0.1, 0.1, math.nan, changes=np.array([0.1]), weights=np.ones(1))
    found = joint_against_sum({ONE: alone, TWO: alone}, alone)
    assert found.verdict == "unknown"
    assert "nothing can be concluded" in found.sentence()
    with pytest.raises(HeadlensError, match="no head is off"):
        joint_against_sum({}, measured(0.5))
    with pytest.raises(HeadlensError, match=r"self\.L0H1 has no score"):
        joint_against_sum({ONE: measured(math.nan)}, measured(0.5))


def test_measured_effects_of_a_model() -> None:
    lens, _ = lens_for("gpt2")
    data, metric = random_data("gpt2", 6), metric_for("loss", "causal-lm")
    heads = lens.topology.parse("L0H0,L1H2")
    alone = {head: evaluate(lens, data, HeadSet.of([head]), metric=metric).main for head in heads}
    together = evaluate(lens, data, heads, metric=metric).main
    found = joint_against_sum(alone, together)
    assert found.heads == 2
    assert found.sum == pytest.approx(sum(one.value - one.baseline for one in alone.values()))
    assert found.difference == pytest.approx(together.value - together.baseline - found.sum)
