"""Agreement of rankings against scipy, with ties and gaps, and intervals against resampling by hand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from headlens.agreement import Agreement, Correlation, agreement, compare
from headlens.errors import HeadlensError
from headlens.heads import LayerShape, SiteShape, Topology
from headlens.scores import HeadScores


def scores(values: np.ndarray, unit: str = "head") -> HeadScores:
    layer = LayerShape((0, 1, 3), 4, (0, 0, 1, 1), 4, 2, True)  # head 2 is gone
    topology = Topology((SiteShape("self", (layer,) * len(values)),))
    return HeadScores(topology, {"self": values}, {"self": values}, 3, unit, "made up")  # type: ignore[arg-type]


@pytest.mark.parametrize("decimals", [None, 1])
def test_correlations_and_chance_are_scipys(decimals: int | None) -> None:
    rng = np.random.default_rng(0)
    one = rng.normal(size=60)
    other = 0.6 * one + rng.normal(size=60)
    if decimals is not None:  # many ties
        one, other = one.round(decimals), other.round(decimals)
    found = compare("a", one, "b", other, resamples=200, seed=4)
    assert found.spearman.value == pytest.approx(stats.spearmanr(one, other)[0])
    assert found.kendall.value == pytest.approx(stats.kendalltau(one, other)[0])
    drawn = np.random.default_rng(4).integers(0, 60, size=(200, 60))
    for which, name in ((found.spearman, "spearmanr"), (found.kendall, "kendalltau")):
        each = [getattr(stats, name)(one[row], other[row])[0] for row in drawn]
        low, high = np.quantile(each, (0.025, 0.975))
        assert (which.low, which.high) == (pytest.approx(low, abs=1e-6), pytest.approx(high, abs=1e-6))
        assert low < which.value < high
    assert found.top == 6
    shared = len(set(np.argsort(-one, kind="stable")[:6]) & set(np.argsort(-other, kind="stable")[:6]))
    assert found.shared == shared
    assert found.expected == pytest.approx(0.6)
    table = [[shared, 6 - shared], [6 - shared, 48 + shared]]
    assert found.p_value == pytest.approx(stats.fisher_exact(table, alternative="greater")[1])


def test_many_heads_go_through_in_portions() -> None:
    rng = np.random.default_rng(1)
    one, other = rng.normal(size=(2, 300)).round(2)
    found = compare("a", one, "b", other, resamples=3, seed=0)
    each = [stats.kendalltau(one[r], other[r])[0] for r in np.random.default_rng(0).integers(0, 300, (3, 300))]
    assert found.kendall.high == pytest.approx(np.quantile(each, 0.975), abs=1e-6)


def test_pairs_of_scores_in_their_order_without_heads_that_are_gone() -> None:
    rng = np.random.default_rng(2)
    base = rng.normal(size=(5, 4))
    base[:, 2] = np.nan
    three = {"x": scores(base), "y": scores(base**3), "z": scores(-base)}
    found = agreement(three, top=3, resamples=50)
    assert [(pair.first, pair.second) for pair in found] == [("x", "y"), ("x", "z"), ("y", "z")]
    assert [pair.heads for pair in found] == [15, 15, 15]
    assert [round(pair.spearman.value, 9) for pair in found] == [1, -1, -1]
    assert [round(pair.kendall.value, 9) for pair in found] == [1, -1, -1]
    assert [pair.shared for pair in found] == [3, 0, 0]
    assert found[0].p_value == pytest.approx(6 / (15 * 14 * 13))
    assert agreement(three, top=3, resamples=50) == found


def test_sentences() -> None:
    close = Correlation(0.62, 0.53, 0.70)
    one = Agreement("gradient", "ablation", 270, close, close, 27, 12, 2.7, 0.0000012)
    assert one.sentence() == (
        "gradient and ablation rank the 270 heads alike: rho 0.62 [0.53, 0.70]; "
        "12 of their top 27 are shared, 2.7 by chance (p < 0.0001)."
    )
    for rho, words in (
        (Correlation(0.3, 0.1, 0.5), "only loosely alike"),
        (Correlation(0.1, -0.1, 0.3), "no order in common"),
        (Correlation(-0.4, -0.5, -0.3), "in opposite order"),
    ):
        assert words in Agreement("a", "b", 9, rho, rho, 1, 0, 0.1, 1.0, "kv").sentence()
    flat = compare("a", np.ones(8), "b", np.arange(8.0), resamples=5)
    assert np.isnan(flat.spearman.value)
    assert "same score" in flat.sentence()


def test_what_cannot_be_compared() -> None:
    base = scores(np.arange(8.0).reshape(2, 4))
    with pytest.raises(HeadlensError, match="at least two"):
        agreement({"a": base})
    with pytest.raises(HeadlensError, match="different heads"):
        agreement({"a": base, "b": scores(np.arange(12.0).reshape(3, 4))})
    with pytest.raises(HeadlensError, match="different heads"):
        agreement({"a": base, "b": scores(np.arange(8.0).reshape(2, 4), "kv")})
    with pytest.raises(HeadlensError, match="at least 4"):
        compare("a", np.array([1, 2, 3, np.nan]), "b", np.arange(4.0))
    with pytest.raises(HeadlensError, match="top 9 of 8"):
        compare("a", np.arange(8.0), "b", np.arange(8.0), top=9)
