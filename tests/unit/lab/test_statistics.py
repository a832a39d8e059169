"""Intervals and comparisons against scipy and closed forms."""

from __future__ import annotations

import math

import pytest
from scipy import stats

from headlens.lab.statistics import Rate, compare, fisher, mean, rate


@pytest.mark.parametrize(("successes", "runs"), [(0, 4), (4, 12), (11, 12), (12, 12), (1, 2)])
def test_intervals_are_clopper_pearsons(successes: int, runs: int) -> None:
    found = rate([True] * successes + [False] * (runs - successes))
    low = 0.0 if successes == 0 else stats.beta.ppf(0.025, successes, runs - successes + 1)
    high = 1.0 if successes == runs else stats.beta.ppf(0.975, successes + 1, runs - successes)
    assert (found.low, found.high) == pytest.approx((low, high), abs=1e-9)
    assert found.value == successes / runs


def test_all_of_twelve_by_hand() -> None:
    found = rate([True] * 12)
    assert found.low == pytest.approx(0.025 ** (1 / 12))
    assert found.high == 1


def test_one_seed_gives_no_interval() -> None:
    one = rate([True])
    assert math.isnan(one.low)
    assert math.isnan(one.high)
    assert "no interval from one seed" in one.words()
    assert compare(one, rate([False] * 12)) == "one seed"
    assert math.isnan(rate([]).value)


def test_words_give_counts_share_and_interval() -> None:
    assert rate([True] * 4 + [False] * 8).words() == "4 of 12 runs (33 %, 95 % interval 10 to 65 %)"


def test_only_intervals_that_do_not_overlap_decide() -> None:
    none, some, all_ = rate([False] * 12), rate([True] * 6 + [False] * 6), rate([True] * 12)
    assert compare(all_, none) == "higher"
    assert compare(none, all_) == "lower"
    assert compare(some, all_) == compare(all_, some) == "undecided"
    assert compare(some, none) == compare(none, some) == "undecided"
    assert compare(all_, all_) == "undecided"
    assert compare(Rate(1, 4, 0.1, 0.5), Rate(3, 4, 0.5, 0.9)) == "undecided"  # they touch


def test_fishers_exact_test_by_hand() -> None:
    """4 of 4 against 0 of 4: of the 70 ways to place four successes two are as extreme."""
    assert fisher(rate([True] * 4), rate([False] * 4)) == pytest.approx(2 / 70)
    assert math.isnan(fisher(rate([]), rate([True])))


def test_means_and_their_errors() -> None:
    found = mean([1.0, 2.0, 6.0])
    assert found.value == pytest.approx(3)
    assert found.sem == pytest.approx(stats.sem([1.0, 2.0, 6.0]))
    assert found.median == 2
    assert mean([1.0, 4.0]).median == 2.5
    assert math.isnan(mean([1.0]).sem)
    assert math.isnan(mean([]).value)
