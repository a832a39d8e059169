"""The order in which heads go, against plain sorting by hand."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from headlens.errors import HeadError, HeadlensError
from headlens.heads import Head, HeadSet, LayerShape, SiteShape, Topology, Unit
from headlens.pruning.order import columns_of, count_for, lowest, order, removable, with_floor
from headlens.scores import HeadScores


def layer(heads: tuple[int, ...] = (0, 1, 2, 3), kv: int = 4) -> LayerShape:
    return LayerShape(heads, 4, tuple(h * kv // 4 for h in range(4)), 4, kv, True)


PLAIN = Topology((SiteShape("self", (layer(), layer(), layer())),))
GROUPED = Topology((SiteShape("self", (layer(kv=2), layer(kv=2))),))
CUT = Topology((SiteShape("self", (layer((1, 3)), layer(()), layer((0, 1, 2)))),))
THREE = Topology(tuple(SiteShape(name, (layer(), layer())) for name in ("enc", "dec", "cross")))


def scores(topology: Topology, values: dict[str, list[list[float]]], unit: Unit = "head") -> HeadScores:
    arrays = {site: np.array(rows, dtype=float) for site, rows in values.items()}
    return HeadScores(topology, arrays, {s: a * np.nan for s, a in arrays.items()}, 0, unit, "made up")


def drawn(topology: Topology, seed: int, unit: Unit = "head") -> HeadScores:
    rng = np.random.default_rng(seed)
    values = {s.name: rng.normal(size=(len(s.layers), s.width(unit))).tolist() for s in topology.sites}
    return scores(topology, values, unit)


@pytest.mark.parametrize("seed", range(5))
def test_least_important_first(seed: int) -> None:
    found = drawn(PLAIN, seed)
    wanted = sorted((found.array[la, h], la, h) for la in range(3) for h in range(4))
    assert [(head.layer, head.head) for head in order(found)] == [(la, h) for _, la, h in wanted]
    for count in range(13):
        assert lowest(found, count) == HeadSet.of(Head("self", la, h) for _, la, h in wanted[:count])


def test_ties_go_in_label_order() -> None:
    found = scores(PLAIN, {"self": [[1, 0, 0, 1], [0, 1, 1, 0], [0, 0, 0, 0]]})
    labels = [head.label for head in order(found)]
    assert labels[:8] == ["L0H1", "L0H2", "L1H0", "L1H3", "L2H0", "L2H1", "L2H2", "L2H3"]
    assert labels[8:] == ["L0H0", "L0H3", "L1H1", "L1H2"]


@pytest.mark.parametrize(("floor", "seed"), list(itertools.product((1, 2, 3, 4, 9), range(3))))
def test_floor_keeps_the_best_of_every_layer(floor: int, seed: int) -> None:
    found = drawn(PLAIN, seed)
    columns = removable(found, floor=floor)
    for number in range(3):
        ranked = np.argsort(-found.array[number])
        kept = {("self", number, int(h)) for h in ranked[:floor]}
        assert not kept & set(columns)
        assert sum(column[1] == number for column in columns) == max(0, 4 - floor)
    values = [found.array[la, h] for _, la, h in columns]
    assert values == sorted(values)
    most = len(columns)
    assert len(lowest(found, most, floor)) == most
    with pytest.raises(HeadlensError, match=f"leaves {most} to choose from"):
        lowest(found, most + 1, floor)


def test_groups_go_whole() -> None:
    found = scores(GROUPED, {"self": [[3, 1], [2, 4]]}, "kv")
    assert [head.label for head in order(found)] == [*("L0H2", "L0H3", "L1H0", "L1H1", "L0H0", "L0H1", "L1H2", "L1H3")]
    assert GROUPED.format(lowest(found, 2)) == "L0H2,L0H3,L1H0,L1H1"
    assert GROUPED.format(lowest(found, 2, floor=1)) == "L0H2,L0H3,L1H0,L1H1"
    with pytest.raises(HeadlensError, match="KV groups"):
        lowest(found, 3, floor=1)


def test_heads_that_are_gone_come_up_never() -> None:
    nan = float("nan")
    found = scores(CUT, {"self": [[nan, 2, nan, 5], [nan] * 4, [1, 3, 4, nan]]})
    assert [head.label for head in order(found)] == ["L2H0", "L0H1", "L2H1", "L2H2", "L0H3"]
    assert len(columns_of(CUT)) == 5


def test_heads_that_are_off_come_up_never_and_the_floor_counts_the_others() -> None:
    found = scores(PLAIN, {"self": [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12]]})
    off = PLAIN.parse("L0H0-H2")
    assert [head.label for head in order(found, off=off)][:2] == ["L0H3", "L1H0"]
    assert [head.label for head in order(found, off=off, floor=1)][:2] == ["L1H0", "L1H1"]
    assert lowest(found, 1, off=off) == PLAIN.parse("L0H3")
    # Part of a group off: the group can still go.
    grouped = scores(GROUPED, {"self": [[1, 2], [3, 4]]}, "kv")
    assert removable(grouped, off=GROUPED.parse("L0H0"))[0] == ("self", 0, 0)
    assert removable(grouped, off=GROUPED.parse("L0G0"))[0] == ("self", 0, 1)


def test_some_sites_only() -> None:
    found = drawn(THREE, 0)
    assert {head.site for head in order(found, sites=["cross"])} == {"cross"}
    assert {head.site for head in order(found, sites=["enc", "dec"])} == {"enc", "dec"}
    assert len(order(found)) == 24
    values = [found.values["cross"][h.layer, h.head] for h in order(found, sites=["cross"])]
    assert values == sorted(values)
    assert len(values) == 8
    with pytest.raises(HeadError, match="no site 'other'"):
        order(found, sites=["other"])


def test_no_order_without_numbers() -> None:
    found = scores(PLAIN, {"self": [[1, 2, 3, float("nan")], [1] * 4, [1] * 4]})
    with pytest.raises(HeadlensError, match="not finite"):
        order(found)
    with pytest.raises(HeadlensError, match="floor of -1"):
        with_floor([("self", 0, 0)], -1)


def test_counts_are_the_nearest_whole_numbers() -> None:
    assert [count_for(f, 270) for f in (0, 0.1, 0.25, 0.3, 1)] == [0, 27, 68, 81, 270]
    assert [count_for(k / 10, 10) for k in range(11)] == list(range(11))
    assert count_for(0.15, 10) == 2  # halves go up
    for bad in (-0.1, 1.1, float("nan")):
        with pytest.raises(HeadlensError, match="0 to 1"):
            count_for(bad, 10)
