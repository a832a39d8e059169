"""Ready-made head sets."""

from __future__ import annotations

import numpy as np
import pytest

from headlens.heads import LayerShape, SiteShape, Topology
from headlens.ui import presets


@pytest.fixture
def topology() -> Topology:
    """Two layers; head 1 of layer 1 is gone."""
    full = LayerShape((0, 1, 2), 3, (0, 1, 2), 4, 3, True)
    cut = LayerShape((0, 2), 3, (0, 1, 2), 4, 2, True)
    return Topology((SiteShape("self", (full, cut)),))


def _names(topology: Topology, heads: object) -> str:
    return topology.format(heads)  # type: ignore[arg-type]


def test_bottom_takes_the_lowest_of_the_heads_that_are_there(topology: Topology) -> None:
    values = {"self": np.array([[3.0, -1.0, 2.0], [0.5, -9.0, 1.0]])}
    assert _names(topology, presets.bottom(topology, values, 0.4)) == "L0H1,L1H0"
    assert _names(topology, presets.bottom(topology, values, 0)) == "none"
    assert presets.bottom(topology, values, 1) == topology.heads()


def test_bottom_takes_heads_without_a_score_last(topology: Topology) -> None:
    values = {"self": np.array([[np.nan, 5.0, np.nan], [7.0, np.nan, 6.0]])}
    assert _names(topology, presets.bottom(topology, values, 0.6)) == "L0H1,L1"


def test_random_is_drawn_by_its_seed(topology: Topology) -> None:
    draws = [presets.random_share(topology, 0.4, seed) for seed in range(20)]
    assert all(len(draw) == 2 for draw in draws)
    assert draws[3] == presets.random_share(topology, 0.4, 3)
    assert len({_names(topology, draw) for draw in draws}) > 3
    assert all(not draw - topology.heads() for draw in draws)


def test_a_layer_as_a_whole_and_all_but_one(topology: Topology) -> None:
    assert _names(topology, presets.whole_layer(topology, "self", 1)) == "L1"
    assert len(presets.whole_layer(topology, "self", 1)) == 2
    assert _names(topology, presets.all_but_one(topology, "self", 0, 1)) == "L0H0,L0H2"


def test_invert_twice_is_nothing(topology: Topology) -> None:
    off = topology.parse("L0H1,L1")
    assert _names(topology, presets.invert(topology, off)) == "L0H0,L0H2"
    assert presets.invert(topology, presets.invert(topology, off)) == off
