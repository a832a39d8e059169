"""Joint effects against sums: the three verdicts, the errors and the sign of the metric."""

from __future__ import annotations

import math

import pytest

from headlens.errors import HeadlensError
from headlens.evaluate import Measured, evaluate
from headlens.heads import Head, HeadSet
from headlens.metrics import metric_for
from headlens.redundancy import joint_against_sum
from tests.unit.helpers import lens_for, random_data

ONE, TWO = Head("self", 0, 1), Head("self", 2, 3)
SINGLE = {ONE: (0.10, 0.03), TWO: (0.20, 0.04)}


def joint(delta: float, sem: float = 0.12) -> Measured:
    return Measured(2.0, 2.0 + delta, 0.1, 0.1, sem)


def test_more_than_the_sum_is_backup() -> None:
    found = joint_against_sum(SINGLE, joint(0.9))
    assert found.verdict == "backup"
    assert found.sum == pytest.approx(0.3)
    assert found.sum_sem == pytest.approx(0.05)
    assert found.difference == pytest.approx(0.6)
    assert found.difference_sem == pytest.approx(0.13)
    assert found.sentence() == (
        "One at a time the 2 heads cost 0.300 ± 0.050 nats in sum, all at once 0.900 ± 0.120 nats: "
        "0.600 nats more than the sum, so they back each other up, and single scores hide what they do."
    )


def test_less_than_the_sum_is_overlap() -> None:
    found = joint_against_sum(SINGLE, joint(0.02))
    assert (found.verdict, round(found.difference, 6)) == ("overlap", -0.28)
    assert "0.280 nats less than the sum, so their damage overlaps" in found.sentence()


def test_within_two_standard_errors_is_additive() -> None:
    for delta in (0.3, 0.3 + 0.259, 0.3 - 0.259):
        assert joint_against_sum(SINGLE, joint(delta)).verdict == "additive"
    assert "within 2 standard errors (0.130)" in joint_against_sum(SINGLE, joint(0.4)).sentence()
    assert joint_against_sum(SINGLE, joint(0.3 + 0.261)).verdict == "backup"
    assert joint_against_sum(SINGLE, joint(0.3 - 0.261)).verdict == "overlap"


def test_a_metric_where_higher_is_better_turns_the_sign() -> None:
    found = joint_against_sum(SINGLE, joint(-0.9), higher_is_better=True, unit="")
    assert (found.verdict, found.joint) == ("backup", pytest.approx(0.9))
    assert "nats" not in found.sentence()


def test_one_head_and_no_errors_say_nothing() -> None:
    assert joint_against_sum({ONE: (0.1, 0.02)}, joint(0.5)).verdict == "one head"
    found = joint_against_sum({ONE: (0.1, math.nan), TWO: (0.1, 0.1)}, joint(0.5))
    assert found.verdict == "unknown"
    assert "nothing can be concluded" in found.sentence()
    with pytest.raises(HeadlensError, match="no head is off"):
        joint_against_sum({}, joint(0.5))
    with pytest.raises(HeadlensError, match=r"self\.L0H1 has no score"):
        joint_against_sum({ONE: (math.nan, 0.1)}, joint(0.5))


def test_measured_effects_of_a_model() -> None:
    lens, _ = lens_for("gpt2")
    data, metric = random_data("gpt2", 6), metric_for("loss", "causal-lm")
    heads = lens.topology.parse("L0H0,L1H2")
    alone = {head: evaluate(lens, data, HeadSet.of([head]), metric=metric).main for head in heads}
    together = evaluate(lens, data, heads, metric=metric).main
    found = joint_against_sum({head: (one.delta, one.delta_sem) for head, one in alone.items()}, together)
    assert found.heads == 2
    assert found.sum == pytest.approx(sum(one.value - one.baseline for one in alone.values()))
    assert found.difference == pytest.approx(together.value - together.baseline - found.sum)
