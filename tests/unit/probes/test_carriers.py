"""Every head off in turn: against the plain model, and statistics against scipy."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binomtest, t, ttest_1samp

from headlens.errors import Cancelled, HeadlensError
from headlens.probes.carriers import Carriers, by_skill, carriers
from headlens.probes.effects import effects
from headlens.probes.sweep import PairSweep
from headlens.significance import holm, interval, share
from headlens.store import Store
from tests.unit.helpers import TASKS, Oracle, build, open_lens
from tests.unit.probes.test_probe import SKILL, by_hand, skill
from tests.unit.tiny_tokenizer import tiny_tokenizer


@pytest.mark.parametrize("kind", ["gpt2", "llama", "bert-mlm", "t5"])
@pytest.mark.parametrize("ablation", ["zero", "mean"])
def test_falls_are_those_of_the_plain_model(kind: str, ablation: str) -> None:
    model = build(kind)
    oracle = Oracle(kind, copy.deepcopy(model))
    lens = open_lens(model, TASKS[kind], tokenizer=tiny_tokenizer())
    data = skill(kind).data(lens)
    found = carriers(lens, skill(kind), ablation=ablation)  # type: ignore[arg-type]
    clean = by_hand(data, oracle.outputs(data.data))
    assert len(found.effects) == len(lens.topology.heads())
    for effect in found.effects[::5]:
        place = (effect.site, effect.layer, effect.column)
        switched = by_hand(data, oracle.replaced(data.data, [place], ablation))
        fall = clean - switched
        assert effect.fall == pytest.approx(fall.mean(), abs=1e-5)
        assert effect.sem == pytest.approx(fall.std(ddof=1) / np.sqrt(len(fall)), abs=1e-5)
        assert effect.accuracy == (switched > 0).mean()
        assert found.scores.values[effect.site][effect.layer, effect.column] == pytest.approx(effect.fall)
    assert found.difference == pytest.approx(clean.mean(), abs=1e-5)
    assert found.accuracy == share(int((clean > 0).sum()), len(clean))


def test_whole_groups_are_switched_off_together() -> None:
    model = build("llama")
    oracle = Oracle("llama", copy.deepcopy(model))
    lens = open_lens(model, "causal-lm", tokenizer=tiny_tokenizer())
    data = SKILL.data(lens)
    found = {effect.label: effect for effect in carriers(lens, SKILL, unit="kv").effects}
    assert len(found) == 6
    clean = by_hand(data, oracle.outputs(data.data))
    group = by_hand(data, oracle.replaced(data.data, [("self", 1, 2), ("self", 1, 3)], "zero"))
    assert found["L1G1"].fall == pytest.approx((clean - group).mean(), abs=1e-5)


def made_up(seed: int = 0, pairs: int = 30, heads: int = 6) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    before = rng.normal(2.0, 1.0, pairs)
    falls = rng.normal(0.0, 0.3, (pairs, heads))
    falls[:, 2] += 2.5
    falls[:, 4] += 0.3
    return before, falls


def test_statistics_of_every_head() -> None:
    before, falls = made_up()
    found = {
        e.label: e for e in effects(before, falls, [f"L0H{i}" for i in range(6)], [("self", 0, i) for i in range(6)])
    }
    tests = [float(ttest_1samp(falls[:, i], 0, alternative="greater")[1]) for i in range(6)]  # type: ignore[arg-type]
    after = before[:, None] - falls
    lost = [int(((before > 0) & (after[:, i] <= 0)).sum()) for i in range(6)]
    gained = [int(((before <= 0) & (after[:, i] > 0)).sum()) for i in range(6)]
    signs = [
        1.0 if b + c == 0 else float(binomtest(b, b + c, alternative="greater").pvalue)
        for b, c in zip(lost, gained, strict=True)
    ]
    for i in range(6):
        effect = found[f"L0H{i}"]
        assert effect.fall_p == pytest.approx(holm(tests)[i])
        assert effect.loss_p == pytest.approx(holm(signs)[i])
        assert (effect.lost, effect.gained) == (lost[i], gained[i])
        reach = t.ppf(1 - 0.05 / 6 / 2, 29) * falls[:, i].std(ddof=1) / np.sqrt(30)
        assert (effect.fall_low, effect.fall_high) == pytest.approx((effect.fall - reach, effect.fall + reach))
        half = 1 - 0.05 / 6 / 2
        (b_low, b_high), (c_low, c_high) = interval(lost[i], 30, half), interval(gained[i], 30, half)
        assert (effect.loss_low, effect.loss_high) == (b_low - c_high, b_high - c_low)
    assert [label for label, effect in found.items() if effect.carries] == ["L0H2"]
    assert {label for label, effect in found.items() if effect.supports} == {"L0H2", "L0H4"}


def test_intervals_hold_for_all_heads_together() -> None:
    """Heads without any effect: the intervals of all twenty cover 0 in at least 95 of 100 trials, about."""
    rng = np.random.default_rng(1)
    covered = 0
    for _ in range(200):
        falls = rng.normal(0.0, 1.0, (24, 20))
        found = effects(np.ones(24), falls, ["x"] * 20, [("self", 0, i) for i in range(20)])
        covered += all(e.fall_low <= 0 <= e.fall_high for e in found)
        assert not any(e.carries and e.loss_high <= 0 for e in found)
    assert covered >= 180


def test_a_head_without_any_spread() -> None:
    (one, none) = effects(np.ones(5), np.array([[0.5, 0.0]] * 5), ["a", "b"], [("self", 0, 0), ("self", 0, 1)])
    assert (one.fall_p, none.fall_p) == (0.0, 1.0)
    (alone,) = effects(np.ones(1), np.ones((1, 1)), ["a"], [("self", 0, 0)])
    assert np.isnan(alone.fall_p)
    assert not alone.supports


def test_finished_layers_are_taken_from_the_store(tmp_path: Path) -> None:
    lens = open_lens(build("gpt2"), "causal-lm", tokenizer=tiny_tokenizer())
    store = Store(tmp_path)
    done = 0

    def stop(now: int, total: int) -> None:
        nonlocal done
        done = now
        if now > total / 2:
            raise Cancelled

    with pytest.raises(Cancelled):
        carriers(lens, SKILL, store=store, on_progress=stop)
    steps: list[int] = []
    resumed = carriers(lens, SKILL, store=store, on_progress=lambda now, _total: steps.append(now))
    assert resumed.scores.provenance["cached"] == 1
    plain = carriers(lens, SKILL)
    np.testing.assert_allclose(resumed.scores.flat(), plain.scores.flat(), atol=1e-6)
    assert carriers(lens, SKILL, store=store).scores.provenance["cached"] == 3
    assert carriers(lens, SKILL, store=store, resume=False).scores.provenance["cached"] == 0


def test_other_foils_are_other_work() -> None:
    lens = open_lens(build("gpt2"), "causal-lm", tokenizer=tiny_tokenizer())
    from dataclasses import replace

    pairs = tuple(replace(pair, foil=" w3" if pair.right != " w3" else " w4") for pair in SKILL.pairs)
    one, other = SKILL.data(lens), replace(SKILL, pairs=pairs).data(lens)
    assert one.data.hash == other.data.hash
    assert PairSweep(lens, one).key(layer=0) != PairSweep(lens, other).key(layer=0)


def carried(before: np.ndarray, falls: np.ndarray) -> Carriers:
    """Carriers of made-up figures on the heads of a real model."""
    lens = open_lens(build("gpt2"), "causal-lm", tokenizer=tiny_tokenizer())
    real = carriers(lens, SKILL)
    labels = [effect.label for effect in real.effects][: falls.shape[1]]
    places = [("self", 0, i) for i in range(falls.shape[1])]
    found = effects(before, falls, labels, places)
    accuracy = share(int((before > 0).sum()), len(before))
    return Carriers("m", SKILL, len(before), accuracy, float(before.mean()), found, real.scores, "zero", "head")


def test_verdicts_and_sentences() -> None:
    before, falls = made_up(pairs=60)
    falls[:, 2] += 2
    one = carried(np.abs(before), falls)
    assert one.verdict == "carried by single heads"
    assert "can do as in the test (100 % of 60 pairs), and one head carries it: " in one.sentence()
    nothing = carried(np.abs(before) + 1, falls * 0)
    assert nothing.verdict == "redundant"
    assert "no single one of 6 heads is needed for it: none costs a pair" in nothing.sentence()
    few = carried(np.abs(before)[:8] + 1, falls[:8] * 0)
    assert few.verdict == "undecided"
    assert "too few to say" in few.sentence()
    unable = carried(np.where(np.arange(60) % 2, before, -before), falls)
    assert unable.verdict == "not known"
    assert unable.carrying == unable.supporting == ()
    assert "cannot do as in the test" in unable.sentence()
    assert {*by_skill([one, unable])} == {SKILL.name}
    assert one.to_json()["carrying"][0]["label"] == one.carrying[0].label
    frame = one.to_frame()
    assert frame["fall"].tolist() == sorted(frame["fall"], reverse=True)
    assert frame["carries"].tolist().count(True) == 1


def test_a_skill_without_usable_pairs_is_refused() -> None:
    lens = open_lens(build("gpt2"), "causal-lm", tokenizer=tiny_tokenizer())
    with pytest.raises(HeadlensError, match="no pair of facts can be used with tiny"):
        carriers(lens, "facts")
