"""The curve: which sets it measures, what they cost, and that it reports what ``evaluate`` says."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headlens.errors import Cancelled, HeadlensError
from headlens.evaluate import evaluate
from headlens.heads import HeadSet, LayerShape, SiteShape, Topology
from headlens.importance import METHODS, Request
from headlens.importance.score import score
from headlens.metrics import METRICS, metric_for
from headlens.pruning.curve import CurveSpec, curve
from headlens.pruning.order import lowest, order
from headlens.pruning.plan import Steps
from headlens.pruning.points import Curve
from headlens.store import Store
from tests.unit.helpers import Oracle, lens_for, random_data


def spec(lens: Any, method: str = "gradient", metric: str | None = None, **more: Any) -> CurveSpec:
    names = ("unit", "sites", "floor", "step")
    steps = Steps(lens.topology, **{name: more.pop(name) for name in names if name in more})
    return CurveSpec(METHODS[method], metric_for(metric, lens.task), steps, **more)


@cache
def example(kind: str = "gpt2") -> tuple[Any, Any, Any, Curve]:
    lens, _ = lens_for(kind)
    halves = random_data(kind, 7), random_data(kind, 6, seed=1)
    method = "ablation" if kind == "bert-bare" else "gradient"
    return lens, *halves, curve(lens, *halves, spec(lens, method, step=0.25))


def test_the_sets_are_those_of_the_score_half() -> None:
    lens, data, _, found = example()
    scores = score(lens, METHODS["gradient"], Request(METRICS["loss"], data))
    backwards = order(scores)[::-1]
    for count, ranked, reverse in zip((0, 3, 6, 9, 12), found.series("ranked"), found.series("reverse"), strict=True):
        assert ranked.result.off == lowest(scores, count)
        assert reverse.result.off == HeadSet.of(backwards[:count])
        assert ranked.fraction == reverse.fraction == count / 12
    assert found.random_seeds == [0, 1, 2, 3, 4]
    for seed in found.random_seeds:
        drawn = score(lens, METHODS["random"], Request(METRICS["loss"], seed=seed))
        assert [p.result.off for p in found.series("random", seed)] == [lowest(drawn, n) for n in (0, 3, 6, 9, 12)]
    assert len({p.result.off for p in found.series("random") if p.heads_off == 6}) == 5


def test_every_point_is_what_evaluate_says_on_the_held_out_half() -> None:
    lens, _, held_out, found = example()
    for point in found.points:
        wanted = evaluate(lens, held_out, point.result.off, metric=METRICS["loss"])
        assert point.result.evaluation.to_json() == wanted.to_json()
    none, everything = found.series("ranked")[0], found.series("ranked")[-1]
    assert none.result.off == HeadSet()
    assert everything.result.off == lens.topology.heads()


def test_nothing_is_chosen_on_what_is_reported() -> None:
    lens, data, _, found = example()
    other = curve(lens, data, random_data("gpt2", 5, seed=9), spec(lens, step=0.25))
    assert [p.result.off for p in other.points] == [p.result.off for p in found.points]
    swapped = curve(lens, random_data("gpt2", 5, seed=9), data, spec(lens, step=0.25))
    assert [p.result.off for p in swapped.points] != [p.result.off for p in found.points]
    assert found.held_out
    assert not curve(lens, data, data, spec(lens, step=0.5, random=0)).held_out


def test_ten_steps_and_five_random_orders_within_seventy_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    lens, _ = lens_for("t5")  # 36 heads: all steps differ
    score_half, held_out = random_data("t5", 4), random_data("t5", 9, seed=1)
    scored = score(lens, METHODS["gradient"], Request(METRICS["loss"], score_half))
    rows = []
    plain = lens.forward
    monkeypatch.setattr(
        lens, "forward", lambda inputs, run: rows.append(len(inputs["input_ids"])) or plain(inputs, run)
    )
    monkeypatch.setattr("headlens.pruning.curve.score", lambda *args, **more: scored)
    found = curve(lens, score_half, held_out, spec(lens, step=0.1))
    assert sum(rows) == 65 * len(held_out)  # 9 steps of 7 orders, none off and all off
    assert found.provenance["passes"] == 65
    assert len(found.series("ranked")) == 11
    assert len(found.points) == 7 * 11


def test_rescored_at_every_step() -> None:
    """Against models whose W_O columns are zeroed, scored as plain models by the difference of losses."""
    lens, plain = lens_for("gpt2")
    oracle, data = Oracle("gpt2", plain), random_data("gpt2", 3)
    held_out = random_data("gpt2", 3, seed=1)
    found = curve(lens, data, held_out, spec(lens, "ablation", rescore=True, random=0, step=0.25))
    clean = oracle.outputs(data)
    off: list[tuple[str, int, int]] = []
    every = [("self", la, h) for la in range(3) for h in range(4)]
    for point in found.series("ranked")[1:]:
        cost = {
            one: oracle.value("loss", data, oracle.outputs(data, oracle.scaled(dict.fromkeys([*off, one], 0.0))), clean)
            for one in every
            if one not in off
        }
        off += sorted(cost, key=cost.__getitem__)[:3]
        assert point.result.off == lens.topology.parse(",".join(f"L{la}H{h}" for _, la, h in off))
    assert found.provenance["rescored"]


def test_greedy_takes_the_cheapest_head_at_every_step() -> None:
    lens, plain = lens_for("bert-bare")
    oracle, data = Oracle("bert-bare", plain), random_data("bert-bare", 3)
    found = curve(
        lens, data, random_data("bert-bare", 3, seed=1), spec(lens, "magnitude", greedy=True, random=0, step=0.25)
    )
    clean = oracle.outputs(data)
    off: list[tuple[str, int, int]] = []
    stops = {point.heads_off: point.result.off for point in found.series("greedy")}
    assert sorted(stops) == [0, 3, 6, 9, 12]
    for count in range(1, 7):
        every = [("self", la, h) for la in range(3) for h in range(4) if ("self", la, h) not in off]
        cost = {
            one: oracle.value(
                "drift", data, oracle.outputs(data, oracle.scaled(dict.fromkeys([*off, one], 0.0))), clean
            )
            for one in every
        }
        off.append(min(cost, key=cost.__getitem__))
        if count in stops:
            assert stops[count] == lens.topology.parse(",".join(f"L{la}H{h}" for _, la, h in off))


def test_greedy_is_for_small_models() -> None:
    lens, _ = lens_for("gpt2")
    layer = LayerShape(tuple(range(9)), 9, tuple(range(9)), 4, 9, True)
    wide = Steps(Topology((SiteShape("self", (layer,) * 30),)))
    with pytest.raises(HeadlensError, match="36,585 passes over the score half for 270 heads"):
        CurveSpec(METHODS["random"], METRICS["loss"], wide, greedy=True)
    assert CurveSpec(METHODS["random"], METRICS["loss"], Steps(lens.topology), greedy=True).greedy


@pytest.mark.parametrize("rescore", [False, True])
def test_floor_leaves_heads_in_every_layer(rescore: bool) -> None:
    lens, data, held_out, _ = example()
    found = curve(lens, data, held_out, spec(lens, floor=1, step=0.25, random=2, rescore=rescore, greedy=True))
    assert max(point.heads_off for point in found.points) == 9
    for point in found.points:
        assert all(len(labels) <= 3 for labels in point.result.off.by_layer().values())
    for name in ("ranked", "reverse", "greedy"):
        assert [point.heads_off for point in found.series(name)] == [0, 3, 6, 9]
        sets = [point.result.off.heads for point in found.series(name)]
        assert all(a < b for a, b in pairwise(sets))


def test_one_site_and_groups() -> None:
    lens, _ = lens_for("t5")
    data, held_out = random_data("t5", 3), random_data("t5", 3, seed=1)
    found = curve(lens, data, held_out, spec(lens, sites=("cross",), step=0.5, random=1))
    assert {head.site for point in found.points for head in point.result.off} == {"cross"}
    assert [point.heads_off for point in found.series("ranked")] == [0, 6, 12]
    assert found.series("ranked")[-1].fraction == 1
    grouped, _ = lens_for("llama")
    data, held_out = random_data("llama", 3), random_data("llama", 3, seed=1)
    found = curve(grouped, data, held_out, spec(grouped, unit="kv", step=0.5, random=1))
    assert [point.heads_off for point in found.series("ranked")] == [0, 6, 12]
    for point in found.points:
        for labels in point.result.off.by_layer().values():
            assert labels in ((0, 1), (2, 3), (0, 1, 2, 3))


def test_steps() -> None:
    lens, _ = lens_for("gpt2")
    assert Steps(lens.topology, step=0.1).counts == (0, 1, 2, 4, 5, 6, 7, 8, 10, 11, 12)
    assert Steps(lens.topology, step=0.3).counts == (0, 4, 7, 11, 12)
    assert Steps(lens.topology, step=0.001).counts == tuple(range(13))
    assert Steps(lens.topology, step=1).counts == (0, 12)
    assert Steps(lens.topology, floor=4).counts == (0,)
    with pytest.raises(HeadlensError, match="a floor of 4 keeps every head on"):
        spec(lens, floor=4)
    for bad in (0.0, -0.1, 1.5, float("nan")):
        with pytest.raises(HeadlensError, match="--step"):
            Steps(lens.topology, step=bad)


def test_table() -> None:
    _, _, _, found = example()
    frame = found.to_frame()
    assert list(frame.columns[:5]) == ["fraction", "heads_off", "series", "seed", "loss"]
    assert len(frame) == len(found.points)
    ranked = frame[frame.series == "ranked"]
    assert ranked.fraction.tolist() == [0, 0.25, 0.5, 0.75, 1]
    assert ranked.seed.isna().all()
    assert sorted(frame[frame.series == "random"].seed.unique()) == [0, 1, 2, 3, 4]
    row, point = ranked.iloc[2], found.series("ranked")[2]
    measured = point.result.evaluation.measured
    assert (row.loss, row.loss_delta, row.loss_sem) == (
        measured["loss"].value,
        measured["loss"].delta,
        measured["loss"].delta_sem,
    )
    assert row.kl == row.drift == measured["drift"].value
    assert np.isnan(row.bleu)
    assert found.steps.topology.parse(row.off) == point.result.off
    bare = example("bert-bare")[3].to_frame()
    assert bare.loss.isna().all()
    assert bare.kl.isna().all()
    assert bare.drift.notna().all()


def test_stopped_and_resumed(tmp_path: Path) -> None:
    lens, data, held_out, whole = example()
    seen: list[Any] = []

    def stop(done: int, total: int) -> None:
        if total > 30 and done > total // 2:
            raise Cancelled

    store = Store(tmp_path)
    with pytest.raises(Cancelled):
        curve(lens, data, held_out, spec(lens, step=0.25), store=store, on_progress=stop, on_point=seen.append)
    assert 0 < len(seen) < len(whole.points)
    again = curve(lens, data, held_out, spec(lens, step=0.25), store=store)
    assert 0 < again.provenance["passes"] < whole.provenance["passes"]
    assert again.to_frame().equals(whole.to_frame())
    third = curve(lens, data, held_out, spec(lens, step=0.25), store=store)
    assert third.provenance["passes"] == 0


def test_methods_that_need_no_data() -> None:
    lens, data, held_out, _ = example()
    found = curve(lens, None, held_out, spec(lens, "magnitude", step=0.5, random=0, rescore=True))
    assert found.held_out
    assert not found.provenance["rescored"]
    with pytest.raises(HeadlensError, match="needs data"):
        curve(lens, None, held_out, spec(lens, "gradient", step=0.5))
    with pytest.raises(HeadlensError, match="--random"):
        spec(lens, random=-1)
    assert data is not None
