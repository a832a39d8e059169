"""The figure of a curve: every series at its place, the band only where it belongs."""

from __future__ import annotations

from typing import Any

import pytest

from headlens.charts.curve import one_head_left, pruning_curve
from headlens.evaluate import Measured
from headlens.pruning.all_but_one import AllButOne, OneHeadLayer
from headlens.pruning.budget import parse_budget, within
from headlens.pruning.chance import chance
from tests.unit.pruning import made_up

VALUES = {
    "ranked": [2.0, 2.1, 2.3, 3.0],
    "reverse": [2.0, 2.8, 2.9, 3.0],
    0: [2.0, 2.4, 2.6, 3.0],
    1: [2.0, 2.5, 2.5, 3.0],
    "greedy": [2.0, 2.05, 2.2, 3.0],
    "gates": [2.2, 2.25],
}


def traces(figure: Any) -> dict[str, Any]:
    return {trace.name: trace for trace in figure.data}


@pytest.mark.parametrize("dark", [False, True])
def test_every_series(dark: bool) -> None:
    curve = made_up.curve(VALUES, sem=0.02)
    figure: Any = pruning_curve(
        curve, chance=chance(curve), budgets=[within(curve, parse_budget("loss+5%"))], dark=dark
    )
    found = traces(figure)
    assert list(found) == [
        "95 % range of a random order",
        "random orders (2)",
        "random order 1",
        "least important first",
        "most important first",
        "greedy (exact)",
        "learned gates",
    ]
    ranked = found["least important first"]
    assert list(ranked.x) == [0, 35, 65, 100]
    assert list(ranked.y) == VALUES["ranked"]
    assert list(ranked.error_y.array) == pytest.approx([0, *[1.96 * 0.02] * 3])
    assert list(found["random order 1"].y) == VALUES[1]
    assert [found[name].showlegend for name in ("random orders (2)", "random order 1")] == [True, False]
    gates = found["learned gates"]
    assert gates.mode == "markers"
    band = found["95 % range of a random order"]
    bands = chance(curve).bands
    assert list(band.y) == [*(b.high for b in bands), *(b.low for b in reversed(bands))]
    assert [shape.y0 for shape in figure.layout.shapes] == [pytest.approx(2.1)]
    assert figure.layout.xaxis.title.text == "heads off (% of 20)"
    assert figure.layout.yaxis.title.text == "loss (nats per prediction)"
    assert "held-out examples" in figure.layout.title.text


def test_another_figure_has_no_band() -> None:
    curve = made_up.curve(VALUES)
    found = traces(pruning_curve(curve, figure="drift", chance=chance(curve)))
    assert "95 % range of a random order" not in found
    assert set(found["least important first"].y) == {0}
    assert not pruning_curve(curve, figure="bleu").data


def test_one_random_order_has_no_band() -> None:
    curve = made_up.curve({"ranked": [2.0, 2.5, 3.0], 0: [2.0, 2.6, 3.0]}, held_out=False)
    figure: Any = pruning_curve(curve, chance=chance(curve))
    assert list(traces(figure)) == ["random orders (1)", "least important first"]
    assert "chosen on" in figure.layout.title.text


def test_budget_of_a_figure_that_falls() -> None:
    curve = made_up.curve({"ranked": [0.8, 0.7, 0.1]}, figure="accuracy")
    figure: Any = pruning_curve(curve, budgets=[within(curve, parse_budget("accuracy-0.1"))])
    assert [shape.y0 for shape in figure.layout.shapes] == [pytest.approx(0.7)]


def test_layers_with_one_head() -> None:
    def layer(site: str, number: int, delta: float) -> OneHeadLayer:
        one, other = Measured(2.0, 2.0 + delta, 0, 0, 0.1), Measured(2.0, 3.0, 0, 0, 0.2)
        return OneHeadLayer(site, number, 4, f"L{number}H1", delta / 2, one, f"L{number}H2", other, False)

    layers = AllButOne((layer("enc", 0, 0.1), layer("cross", 0, 0.9)), "loss", "head", True, 20)
    found = traces(one_head_left(layers, dark=True))
    assert list(found["best head"].x) == ["enc.L0", "cross.L0"]
    assert list(found["best head"].y) == pytest.approx([0.1, 0.9])
    assert list(found["best head"].text) == ["L0H1", "L0H1"]
    assert list(found["head by chance"].y) == [1.0, 1.0]
    single = AllButOne((layer("self", 3, 0.1),), "loss", "head", True, 20)
    assert list(one_head_left(single).data[0].x) == ["L3"]  # type: ignore[index]
    assert "0 of 1" not in single.sentence()
    assert "1 of 1 layers" in single.sentence()
