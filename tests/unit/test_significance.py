"""Exact statistics against scipy and against counting by hand."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from scipy.stats import binom, binomtest

from headlens.significance import change, holm, interval, mcnemar, mean, share


@pytest.mark.parametrize(("right", "total"), [(0, 24), (1, 24), (12, 24), (23, 24), (24, 24), (3, 7)])
@pytest.mark.parametrize("level", [0.95, 0.9998])
def test_clopper_pearson(right: int, total: int, level: float) -> None:
    wanted = binomtest(right, total).proportion_ci(level, method="exact")
    assert interval(right, total, level) == pytest.approx((wanted.low, wanted.high), abs=1e-9)


def test_the_interval_covers_at_least_as_often_as_it_says() -> None:
    for truth in (0.05, 0.5, 0.83):
        covered = sum(binom.pmf(k, 24, truth) for k in range(25) if interval(k, 24)[0] <= truth <= interval(k, 24)[1])
        assert covered >= 0.95


def test_no_pairs_say_nothing() -> None:
    found = share(0, 0)
    assert all(math.isnan(x) for x in (found.value, found.low, found.high, mean(np.array([])).value))
    assert math.isnan(mean(np.array([1.0])).sem)


def test_mean_and_its_error() -> None:
    found = mean(np.array([1.0, 2.0, 6.0]))
    assert found.value == 3.0
    assert found.sem == pytest.approx(math.sqrt(((4 + 1 + 9) / 2) / 3))


@pytest.mark.parametrize(("lost", "gained"), [(0, 0), (5, 0), (6, 1), (3, 3), (1, 8)])
def test_mcnemar_counts_coin_tosses(lost: int, gained: int) -> None:
    total = lost + gained
    tosses = [sum(t) for t in product((0, 1), repeat=total)]
    at_least = sum(t >= lost for t in tosses) / 2**total
    as_uneven = sum(abs(2 * t - total) >= abs(lost - gained) for t in tosses) / 2**total
    assert mcnemar(lost, gained, falls=True) == pytest.approx(at_least)
    assert mcnemar(lost, gained) == pytest.approx(as_uneven)


def test_change_is_paired() -> None:
    before = np.array([True] * 8 + [False] * 2)
    after = np.array([True] * 3 + [False] * 5 + [True, False])
    found = change(before, after)
    assert (found.lost, found.gained, found.total) == (5, 1, 10)
    assert found.value == pytest.approx(-0.4)
    assert found.p_value == mcnemar(5, 1)
    (lost_low, lost_high), (gained_low, gained_high) = interval(5, 10, 0.975), interval(1, 10, 0.975)
    assert (found.low, found.high) == (gained_low - lost_high, gained_high - lost_low)
    assert found.low < found.value < found.high


def test_holm_step_by_step() -> None:
    # sorted: .01 .02 .03 .04; times 4 3 2 1: .04 .06 .06 .04 -> never falling: .04 .06 .06 .06
    assert holm([0.04, 0.01, 0.03, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    assert holm([0.6, 0.7]) == pytest.approx([1.0, 1.0])
    assert holm([]).shape == (0,)
    found = holm([0.02, float("nan"), 0.03])
    assert found[[0, 2]] == pytest.approx([0.04, 0.04])
    assert math.isnan(found[1])


def test_holm_rejects_what_the_step_down_rule_rejects() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        p = rng.random(7) ** 3
        rejected, open_ = set(), sorted(range(7), key=lambda i: p[i])
        for step, i in enumerate(open_):
            if p[i] > 0.05 / (7 - step):
                break
            rejected.add(i)
        assert {i for i, q in enumerate(holm(p)) if q <= 0.05} == rejected
