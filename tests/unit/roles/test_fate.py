"""When the heads of a role leave, against enumerating every order."""

from __future__ import annotations

from itertools import combinations
from math import comb

import numpy as np
import pytest
from scipy.stats import mannwhitneyu

from headlens.errors import HeadlensError
from headlens.heads import Head, HeadSet, LayerShape, SiteShape, Topology
from headlens.roles import RoleScores
from headlens.roles.fate import by_curve, by_score, fates
from headlens.scores import HeadScores

LAYER = LayerShape((0, 1, 2, 3), 4, (0, 1, 2, 3), 4, 4, True)
TOPOLOGY = Topology((SiteShape("self", (LAYER, LAYER)),))
HEADS = list(TOPOLOGY.heads())


def role_scores(**heads: tuple[int, ...]) -> RoleScores:
    """Scores of 1 for the named heads (0 to 7), 0 for the others."""
    scores = {}
    for role, chosen in heads.items():
        flat = np.zeros(8)
        flat[list(chosen)] = 1
        scores[role.replace("_", "-")] = {"self": flat.reshape(2, 4)}
    return RoleScores(TOPOLOGY, scores, {}, 0)


def importance(values: list[float]) -> HeadScores:
    array = {"self": np.array(values, dtype=float).reshape(2, 4)}
    return HeadScores(TOPOLOGY, array, {"self": np.full((2, 4), np.nan)}, 0, "head", "made-up")


def test_the_least_important_head_goes_first() -> None:
    when = by_score(importance([5, 3, 8, 1, 2, 7, 6, 4]))
    assert [when[head] * 8 for head in HEADS] == [5, 3, 8, 1, 2, 7, 6, 4]


@pytest.mark.parametrize("heads", [1, 2, 3])
def test_chance_is_every_order_counted(heads: int) -> None:
    when = by_score(importance(list(range(8))))
    found = fates(role_scores(induction=tuple(range(heads))), when).fates[0]
    draws = list(combinations(range(1, 9), heads))
    assert len(draws) == comb(8, heads)
    for k, departure in enumerate(found.departures):
        places = np.sort([draw[k] / 8 for draw in draws])
        assert departure.count == k + 1
        assert departure.expected == pytest.approx(places.mean())
        assert departure.expected == pytest.approx((k + 1) * 9 / (heads + 1) / 8)
        assert (departure.low, departure.high) == pytest.approx(
            (np.quantile(places, 0.025, method="inverted_cdf"), np.quantile(places, 0.975, method="inverted_cdf"))
        )
        assert departure.fraction == (k + 1) / 8


def test_rank_and_p_value() -> None:
    when = by_score(importance(list(range(8))))
    found = {f.role: f for f in fates(role_scores(induction=(5, 6, 7), self=(0, 4)), when).fates}
    late, mixed = found["induction"], found["self"]
    assert late.rank == 1.0
    assert mixed.rank == pytest.approx((0 + 3) / 12)
    raw = [
        mannwhitneyu([6, 7, 8], [1, 2, 3, 4, 5]).pvalue,
        mannwhitneyu([1, 5], [2, 3, 4, 6, 7, 8]).pvalue,
    ]
    assert late.p_value == pytest.approx(min(1, 2 * raw[0]))
    assert mixed.p_value == pytest.approx(max(2 * raw[0], raw[1]))


def test_sentences() -> None:
    when = by_score(importance(list(range(8))))
    (text,) = fates(role_scores(induction=(5, 6, 7)), when).sentences()
    assert text == (
        "The 3 heads of the role induction (of 8) leave later than others: the last one when 100 % of the heads are "
        "off; in a random order at 84 % [50, 100]."
    )
    (text,) = fates(role_scores(self=(0,)), when).sentences()
    assert text.startswith("The one head of the role own token (of 8) leaves at no other time than others")


def test_roles_that_no_head_has_are_left_out_and_a_head_may_have_two() -> None:
    when = by_score(importance(list(range(8))))
    found = fates(role_scores(induction=(7,), prefix_matching=(7,), self=()), when)
    assert [fate.role for fate in found.fates] == ["induction", "prefix-matching"]
    frame = found.to_frame()
    assert list(frame.columns) == [
        "role",
        "count",
        "of",
        "site",
        "layer",
        "head",
        "fraction",
        "expected",
        "low",
        "high",
    ]
    assert list(frame["layer"]) == [1, 1]
    assert list(frame["head"]) == [3, 3]


def test_remaining_heads_and_their_number_by_chance() -> None:
    when = by_score(importance(list(range(8))))
    frame = fates(role_scores(induction=(1, 6, 7)), when).remaining([0.0, 0.25, 0.5, 1.0])
    assert list(frame["heads"]) == [3, 2, 2, 0]
    assert list(frame["expected"]) == pytest.approx([3, 2.25, 1.5, 0])
    left = np.sort([sum(place > 4 for place in draw) for draw in combinations(range(1, 9), 3)])
    half = frame[frame["fraction"] == 0.5].iloc[0]
    assert half["low"] == np.quantile(left, 0.025, method="inverted_cdf")
    assert half["high"] == np.quantile(left, 0.975, method="inverted_cdf")


class FakeCurve:
    """Stands for a measured curve: points at 25, 50 and 75 %."""

    class steps:  # noqa: N801
        topology = TOPOLOGY

    def __init__(self, *sets: set[int]) -> None:
        self.sets = sets

    def series(self, name: str) -> list:
        assert name == "ranked"

        class Point:
            def __init__(self, off: set[int]) -> None:
                self.fraction = len(off) / 8
                self.result = type("Result", (), {"off": HeadSet.of(HEADS[i] for i in off)})

        return [Point(off) for off in self.sets]


def test_a_measured_curve_goes_in_steps() -> None:
    """A re-scored order may bring a head back; what counts is when it first went."""
    when = by_curve(FakeCurve(set(), {0, 1}, {0, 2, 3, 4}, {0, 1, 2, 3, 4, 5}))  # type: ignore[arg-type]
    assert [when[head] for head in HEADS] == [0.25, 0.25, 0.5, 0.5, 0.5, 0.75, 1, 1]
    found = fates(role_scores(induction=(0, 7)), when).fates[0]
    steps = np.array([0.25, 0.25, 0.5, 0.5, 0.5, 0.75, 1, 1])
    for k, departure in enumerate(found.departures):
        places = [np.sort(steps[list(draw)])[k] for draw in combinations(range(8), 2)]
        assert departure.expected == pytest.approx(np.mean(places))
        assert departure.low <= departure.expected <= departure.high


def test_other_heads_are_refused() -> None:
    with pytest.raises(HeadlensError, match="different heads"):
        fates(role_scores(induction=(0,)), {Head("self", 0, 0): 0.5})
