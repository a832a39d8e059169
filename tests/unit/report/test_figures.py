"""Where things go in a figure."""

from __future__ import annotations

import math

import numpy as np
import pytest

from headlens.heads import HeadSet, LayerShape, SiteShape, Topology
from headlens.report.figures import Dot, dots, lines, ticks
from headlens.report.head_map import head_maps
from headlens.scores import HeadScores


@pytest.mark.parametrize(
    ("low", "high", "wanted"),
    [
        (0.0, 1.0, [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        (3.1, 3.47, [3.1, 3.2, 3.3, 3.4, 3.5]),
        (-12.0, 31.0, [-20.0, -10.0, 0.0, 10.0, 20.0, 30.0, 40.0]),
        (0.00041, 0.00046, [0.00041, 0.00042, 0.00043, 0.00044, 0.00045, 0.00046]),
    ],
)
def test_ticks_are_round_and_hold_the_range(low: float, high: float, wanted: list[float]) -> None:
    assert ticks(low, high) == pytest.approx(wanted)


@pytest.mark.parametrize("value", [0.0, 5.0, -3.0])
def test_one_value_alone_has_an_axis(value: float) -> None:
    found = ticks(value, value)
    assert len(found) >= 2
    assert found[0] < value < found[-1]


def test_dots_lie_where_their_numbers_are() -> None:
    found = dots("t", "nats", [Dot("a", 1.0, 0.5, 1.5, "1", "full"), Dot("b", 3.0, math.nan, math.nan, "3", "cut")])
    place = {tick.text: tick.at for tick in found.ticks}
    a, b = found.rows
    assert a.x == pytest.approx(place["1"], abs=0.02) if "1" in place else a.x == pytest.approx(place["1.0"], abs=0.02)
    assert a.x_low is not None
    assert a.x is not None
    assert b.x is not None
    assert a.x_low < a.x < b.x
    assert a.x - a.x_low == pytest.approx((b.x - a.x) / 4, abs=0.02)
    assert b.x_low is None
    assert "a: 1" in found.description
    changes = dots("t", "%", [Dot("a", 5.0, 4.0, 6.0, "5", "cut")], zero=True)
    assert changes.zero == changes.ticks[0].at


def test_lines_lie_where_their_numbers_are() -> None:
    found = lines("t", "step", "loss", {"watched": ("cut", [(0, 4.0), (10, 2.0)])}, best=(10, 2.0))
    ((_, kind, points, end),) = found.paths
    (x0, y0), (x1, y1) = ([float(number) for number in point.split(",")] for point in points.split())
    assert kind == "cut"
    assert x0 == found.left
    assert x1 > x0
    assert y1 > y0  # less is lower on the paper
    assert found.best == (x1, y1)
    assert end == y1
    assert "4 at 0, 2 at 10" in found.description


def test_the_map_shows_ranks_and_what_is_gone() -> None:
    layer = LayerShape((0, 1, 2), 3, (0, 1, 2), 4, 3, True)
    short = LayerShape((0, 2), 3, (0, 1, 2), 4, 3, True)
    shape = Topology((SiteShape("self", (layer, short)),))
    values = np.array([[0.5, -1.0, 2.0], [0.1, np.nan, 9.0]])
    scores = HeadScores(shape, {"self": values}, {"self": values * 0}, 5, "head", "ablation")
    (found,) = head_maps(scores, shape, shape.parse("L0H1,L1H0"))
    told = {cell.text.split(",")[0]: cell for cell in found.cells}
    assert set(told) == {"L0H0", "L0H1", "L0H2", "L1H0", "L1H2"}
    assert [told[name].share for name in ("L0H1", "L1H0", "L0H0", "L0H2", "L1H2")] == [0, 0.25, 0.5, 0.75, 1]
    assert {name for name, cell in told.items() if cell.gone} == {"L0H1", "L1H0"}
    assert told["L0H1"].text == "L0H1, score -1, taken out"
    assert found.description == "Taken out: layer 0: 1 of 3; layer 1: 1 of 2."
    assert told["L1H2"].x - told["L1H0"].x == pytest.approx(2 * found.size)
    (plain,) = head_maps(None, shape, HeadSet())
    assert all(cell.share is None for cell in plain.cells)
