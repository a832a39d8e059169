"""Every claim on inputs made so that it holds and on inputs made so that it fails, numbers worked out by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from headlens.agreement import Agreement, Correlation, compare
from headlens.claims.base import Finding, NotMeasurable, against
from headlens.claims.initial import independent_at_init
from headlens.claims.rankings import alike, methods_agree, replicates, zero_mean_agree
from headlens.claims.recovering import share_interval
from headlens.claims.removable import beats_chance, reach, share_removable, single_head_layers
from headlens.claims.skills import Candidate, hidden_skill
from headlens.claims.special import cross_most_sensitive, roles_go_last
from headlens.claims.together import DRAWN, LEAST, MOST, additive
from headlens.evaluate import Measured
from headlens.heads import Head, LayerShape, SiteShape, Topology
from headlens.lab.similarity import similarity
from headlens.metrics import ratio
from headlens.probes import SKILLS
from headlens.probes.result import ProbeResult, SkillResult
from headlens.pruning.all_but_one import AllButOne, OneHeadLayer
from headlens.pruning.order import count_for
from headlens.pruning.plan import Steps
from headlens.redundancy import Redundancy, joint_against_sum
from headlens.replication import replication
from headlens.scores import HeadScores
from tests.unit.pruning import made_up

FLAT = [2.0, 2.01, 2.02, 2.03, 2.04, 2.05, 2.19, 2.5, 3.0, 3.5, 4.0]
"""Within 0.1 nats up to 50 % of the heads."""
STEEP = [2.0, 2.05, 2.3, 2.5, 2.8, 3.0, 3.2, 3.4, 3.6, 3.8, 4.0]
"""Within 0.1 nats up to 10 %."""


def measured(changes: list[float]) -> Measured:
    """An effect with these changes in equally long examples, from a loss of 1."""
    array, ones = np.array(changes), np.ones(len(changes))
    value, sem = ratio(array, ones)
    return Measured(1.0, 1.0 + float(value), 0.0, 0.0, float(sem), array, ones)


def scores(values: np.ndarray, reliability: float | None = 0.9) -> HeadScores:
    """Scores of the twenty heads of the made-up topology."""
    array = values.reshape(2, 10).astype(float)
    return HeadScores(made_up.TOPOLOGY, {"self": array}, {"self": array * 0}, 8, "head", "x", reliability=reliability)


def test_the_common_rule_looks_at_the_whole_interval() -> None:
    assert against(0.3, 0.5, 0.3) == "holds"
    assert against(0.1, 0.29, 0.3) == "fails"
    assert against(0.29, 0.31, 0.3) == "mixed"
    assert against(math.nan, 0.5, 0.3) == "mixed"


@pytest.mark.parametrize(("values", "verdict", "share"), [(FLAT, "holds", 0.5), (STEEP, "fails", 0.1)])
def test_share_removable(values: list[float], verdict: str, share: float) -> None:
    found = share_removable(made_up.curve({"ranked": values, 0: STEEP, 1: STEEP}), 0.1, "nats")
    assert (found.verdict, found.value, found.low, found.high) == (verdict, share, share, share)
    assert found.again is not None
    assert found.again.page == "pages/switchboard.py"
    assert len(made_up.TOPOLOGY.parse(found.again.state["off"])) == 20 * share


def test_thirty_percent_are_counted_to_the_nearest_head() -> None:
    """GPT-2 has 144 heads: the step at 30 % switches 43 off, which is 29.9 %."""
    topology = Topology((SiteShape("self", (LayerShape(tuple(range(12)), 12, tuple(range(12)), 4, 12, True),) * 12),))
    for last, verdict in ((3, "holds"), (2, "fails")):
        values = [2.0 + 0.01 * step if step <= last else 3.0 for step in range(11)]
        small = made_up.curve({"ranked": values})
        points = tuple(replace(point, fraction=count_for(point.fraction, 144) / 144) for point in small.points)
        found = share_removable(replace(small, points=points, steps=Steps(topology)), 0.1, "nats")
        assert found.verdict == verdict
        assert found.value == count_for(last / 10, 144) / 144


def test_a_large_error_leaves_the_share_undecided() -> None:
    found = share_removable(made_up.curve({"ranked": FLAT}, sem=0.05), 0.1, "nats")
    # Bounds are 0.098 wide: 0.01 + 0.098 is too much at once; 0.19 - 0.098 is within, 0.5 - 0.098 is not.
    assert (found.verdict, found.low, found.value, found.high) == ("mixed", 0.0, 0.5, 0.6)


def test_the_share_stops_at_the_first_step_outside() -> None:
    broken = [2.0, 2.3, 2.01, 2.01, 2.01, 2.01, 2.01, 2.01, 2.01, 2.01, 4.0]
    assert reach(made_up.curve({"ranked": broken}), 0.1) == 0.0


def test_accuracy_counts_its_fall() -> None:
    falls = [0.9, 0.89, 0.885, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1]
    found = share_removable(made_up.curve({"ranked": falls}, figure="accuracy"), 0.02, "share of predictions")
    assert (found.verdict, found.value) == ("fails", 0.2)


def test_beats_chance() -> None:
    orders = {seed: [2.0, *[3.0 + 0.01 * seed] * 9, 4.0] for seed in range(5)}
    better = beats_chance(made_up.curve({"ranked": [2.0, *[2.2] * 9, 4.0], **orders}), "nats")
    worse = beats_chance(made_up.curve({"ranked": [2.0, *[3.8] * 9, 4.0], **orders}), "nats")
    same = beats_chance(made_up.curve({"ranked": [2.0, *[3.02] * 9, 4.0], **orders}), "nats")
    assert [found.verdict for found in (better, worse, same)] == ["holds", "fails", "mixed"]
    assert better.value == pytest.approx(3.02 - 2.2)
    assert worse.value == pytest.approx(3.02 - 3.8)
    assert better.low is not None
    assert better.low > 0
    assert "0.82 nats more on average" in better.sentence
    assert "0.78 nats less on average" in worse.sentence


def layers(costs: list[float], sem: float) -> AllButOne:
    found = tuple(
        OneHeadLayer(
            "self", i, 4, f"L{i}H0", cost, Measured(1.0, 1.0 + cost, 0, 0, sem), f"L{i}H1", measured([0.0]), False
        )
        for i, cost in enumerate(costs)
    )
    return AllButOne(found, "loss", "head", True, 20)


def test_single_head_layers() -> None:
    some = single_head_layers(layers([0.01, 0.5, 0.9], 0.001), 0.1, "nats")
    none = single_head_layers(layers([0.4, 0.5, 0.9], 0.001), 0.1, "nats")
    unknown = single_head_layers(layers([0.09, 0.5, 0.9], 0.1), 0.1, "nats")
    assert [found.verdict for found in (some, none, unknown)] == ["holds", "fails", "mixed"]
    assert (some.value, some.low, some.high) == (1 / 3, 1 / 3, 1 / 3)
    assert "self layer 2" in some.sentence


def test_methods_agree_and_zero_mean_agree() -> None:
    ranks, rng = np.arange(20.0), np.random.default_rng(0)
    turned = {"magnitude": scores(ranks), "gradient": scores(-ranks), "ablation": scores(rng.permutation(ranks))}
    same = {name: scores(ranks + 0.1 * rng.normal(size=20)) for name in turned}
    assert methods_agree(same).verdict == "holds"
    assert methods_agree(same).value == pytest.approx(1, abs=0.02)
    apart = methods_agree(turned)
    assert apart.value == pytest.approx(-1)
    assert apart.verdict in ("fails", "mixed")
    assert zero_mean_agree({"zero": scores(ranks), "mean": scores(ranks**3)}).verdict == "holds"
    assert zero_mean_agree({"zero": scores(ranks), "mean": scores(-ranks)}).verdict == "fails"


def test_three_pairs_of_which_none_is_alike_fail() -> None:
    a = np.arange(20.0)
    # Mirror images in both halves: correlation 0.5 or less for every pair.
    b = np.concatenate([a[:10][::-1], a[10:][::-1]]) * np.tile([1, -1], 10)
    c = -a
    assert alike(compare("a", a, "c", c)) == "fails"
    found = methods_agree({"magnitude": scores(a), "gradient": scores(c), "ablation": scores(b)})
    assert found.verdict in ("fails", "mixed")
    assert found.verdict == ("fails" if _all_fail(a, b, c) else "mixed")


def _all_fail(*rows: np.ndarray) -> bool:
    pairs = ((0, 1), (0, 2), (1, 2))
    return all(compare("x", rows[i], "y", rows[j]).spearman.high < 0.5 for i, j in pairs)


def test_an_undecided_pair_is_mixed() -> None:
    pair = Agreement("a", "b", 20, Correlation(0.6, 0.3, 0.8), Correlation(0, 0, 0), 2, 1, 0.2, 0.1)
    assert alike(pair) == "mixed"


def test_replicates() -> None:
    ranks = np.arange(20.0)
    same = replicates(replication({"news": scores(ranks), "code": scores(ranks**2), "prose": scores(ranks + 1)}))
    other = replicates(replication({"news": scores(ranks), "code": scores(-ranks)}))
    assert (same.verdict, other.verdict) == ("holds", "fails")
    assert other.value == pytest.approx(-1)


def test_independent_at_init() -> None:
    rng = np.random.default_rng(0)
    free = [similarity(rng.normal(size=(4, 30, 8)), layer=layer) for layer in range(3)]
    copied = rng.normal(size=(4, 30, 8))
    copied[3] = copied[0] - 2 * copied[1]
    bound = [similarity(copied, layer=layer) for layer in range(3)]
    assert independent_at_init([free, free]).verdict == "holds"
    assert independent_at_init([free, free]).value == 1
    assert independent_at_init([bound]).verdict == "fails"
    assert independent_at_init([free, bound]).verdict == "mixed"
    with pytest.raises(NotMeasurable, match="single head"):
        independent_at_init([[similarity(rng.normal(size=(1, 30, 8)))]])


def effect(singles: list[list[float]], joint: list[float]) -> Redundancy:
    heads = {Head("self", 0, i): measured(changes) for i, changes in enumerate(singles)}
    return joint_against_sum(heads, measured(joint))


def test_additive() -> None:
    exact = effect([[0.1, 0.12, 0.09, 0.11], [0.2, 0.19, 0.21, 0.2]], [0.3, 0.31, 0.3, 0.31])
    backup = effect([[0.1, 0.12, 0.09, 0.11], [0.2, 0.19, 0.21, 0.2]], [0.9, 0.91, 0.9, 0.92])
    noisy = effect([[0.1, 0.12, 0.09, 0.11], [0.2, 0.19, 0.21, 0.2]], [2.0, -1.5, 1.5, -0.8])
    names = (LEAST, DRAWN, MOST)
    assert additive(dict.fromkeys(names, exact), "nats").verdict == "holds"
    apart = additive(dict.fromkeys(names, backup), "nats")
    assert apart.verdict == "fails"
    assert apart.value == pytest.approx(0.9075 - 0.305, abs=1e-6)
    assert additive(dict(zip(names, (exact, backup, exact), strict=True)), "nats").verdict == "mixed"
    assert additive(dict.fromkeys(names, noisy), "nats").verdict == "mixed"


def test_roles_go_last() -> None:
    heads = [Head("self", layer, head) for layer in range(2) for head in range(10)]
    when = {head: (i + 1) / 20 for i, head in enumerate(heads)}
    late = roles_go_last(when, dict.fromkeys(heads[15:], "induction"))
    soon = roles_go_last(when, dict.fromkeys(heads[:5], "induction"))
    anyhow = roles_go_last(when, dict.fromkeys(heads[::4], "induction"))
    assert [found.verdict for found in (late, soon, anyhow)] == ["holds", "fails", "mixed"]
    assert (late.value, soon.value) == (1.0, 0.0)
    assert "5 induction" in late.sentence
    with pytest.raises(NotMeasurable, match="1 of 20"):
        roles_go_last(when, {heads[0]: "induction"})


def test_a_few_heads_with_a_role_are_not_called_special_by_chance() -> None:
    heads = [Head("self", layer, head) for layer in range(2) for head in range(16)]
    when = {head: (i + 1) / 32 for i, head in enumerate(heads)}
    rng = np.random.default_rng(0)
    drawn = [rng.choice(32, 2, replace=False) for _ in range(300)]
    verdicts = [roles_go_last(when, {heads[i]: "induction" for i in two}).verdict for two in drawn]
    assert verdicts.count("holds") + verdicts.count("fails") < 0.1 * len(drawn)  # 5 % on average
    assert roles_go_last(when, {heads[31]: "induction", heads[30]: "induction"}).verdict == "holds"


def test_the_share_that_comes_back_has_the_interval_of_a_ratio() -> None:
    """Its ends are where the part less so many times the whole is just told from zero: that is what Fieller solves."""
    rng = np.random.default_rng(3)
    whole = 0.4 + 0.3 * rng.normal(size=40)
    part = 0.7 * whole + 0.05 * rng.normal(size=40)
    own, all_of = measured(part.tolist()), measured(whole.tolist())
    ends = share_interval(own, all_of)
    for end in ends:
        value, error = ratio(part - end * whole, np.ones(40))
        assert abs(float(value)) == pytest.approx(1.96 * float(error), rel=1e-6)
    assert ends[0] < own.delta / all_of.delta < ends[1]
    assert ends[1] - ends[0] < 2 * 1.96 * own.delta_sem / all_of.delta / 3  # the errors of both go together
    assert np.isnan(share_interval(own, measured(rng.normal(size=40).tolist()))).all()
    assert share_interval(all_of, all_of) == pytest.approx((1.0, 1.0))


def test_cross_most_sensitive() -> None:
    low, high = measured([0.1, 0.12, 0.11, 0.1]), measured([0.9, 1.1, 1.0, 0.95])
    most = cross_most_sensitive({"enc": low, "dec": low, "cross": high}, "nats")
    least = cross_most_sensitive({"enc": low, "dec": high, "cross": low}, "nats")
    same = cross_most_sensitive({"enc": low, "dec": high, "cross": high}, "nats")
    assert [found.verdict for found in (most, least, same)] == ["holds", "fails", "mixed"]
    assert most.value == pytest.approx(0.9875 - 0.1075)
    assert least.value == pytest.approx(0.1075 - 0.9875)


def probed(before: int, after: int, pairs: int = 40) -> Candidate:
    """A skill with so many right answers before and after."""
    skill = next(iter(SKILLS.values()))
    answers = [np.where(np.arange(pairs) < right, 1.0, -1.0) for right in (before, after)]
    return Candidate(0.01, ProbeResult("m", "L0H1", "zero", (SkillResult(skill, answers[0], answers[1]),), {}))


@pytest.mark.parametrize(("after", "verdict"), [(20, "holds"), (32, "mixed"), (39, "fails")])
def test_hidden_skill(after: int, verdict: str) -> None:
    found = hidden_skill({"set": probed(40, after)})
    assert found.verdict == verdict
    assert found.value == pytest.approx((after - 40) / 40)


def test_a_skill_that_is_not_there_cannot_be_lost() -> None:
    with pytest.raises(NotMeasurable, match="none of the skills"):
        hidden_skill({"set": probed(20, 10)})
    with pytest.raises(NotMeasurable, match="no set of heads"):
        hidden_skill({})


def test_a_finding_survives_json() -> None:
    found = share_removable(made_up.curve({"ranked": FLAT, 0: STEEP, 1: STEEP}), 0.1, "nats")
    assert Finding.from_json(found.to_json()) == found
