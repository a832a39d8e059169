"""Squares of correlations and transfers show the numbers at their places."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from headlens.agreement import Agreement, Correlation
from headlens.charts.replication import correlations, transfers
from headlens.replication import Replicated, Replication
from headlens.replication_curves import CurveReplication, Transfer


def pair(first: str, second: str, rho: float) -> Replicated:
    found = Correlation(rho, rho - 0.1, rho + 0.1)
    return Replicated(Agreement(first, second, 12, found, found, 1, 0, 0.1, 1.0), 0.9)


def test_every_pair_stands_twice_and_no_set_with_itself() -> None:
    pairs = (pair("a", "b", 0.1), pair("a", "c", -0.2), pair("b", "c", 0.3))
    for dark in (False, True):
        figure: Any = correlations(Replication(("a", "b", "c"), {}, {}, pairs), dark=dark)
        (squares,) = figure.data
        assert list(squares.x) == list(squares.y) == ["a", "b", "c"]
        values = np.array(squares.z, dtype=float)
        np.testing.assert_allclose(values, [[np.nan, 0.1, -0.2], [0.1, np.nan, 0.3], [-0.2, 0.3, np.nan]])
        assert list(squares.text[0]) == ["", "0.10", "-0.20"]
        assert (squares.zmin, squares.zmax) == (-1.0, 1.0)  # so that 0 has the colour between


def test_transfers_at_the_largest_share_with_random_below() -> None:
    costs = {("a", "a"): 0.1, ("a", "b"): 0.4, ("b", "a"): 0.3, ("b", "b"): 0.2}
    found = CurveReplication(
        "loss",
        tuple(
            Transfer(chosen, measured, fraction, cost * fraction, 0.01, 0.0, 0.0, 2.0, 1.5, 2.5)
            for (chosen, measured), cost in costs.items()
            for fraction in (0.2, 0.5)
        ),
        {("a", "b"): Correlation(0.5, 0.4, 0.6)},
    )
    figure: Any = transfers(found)
    (squares,) = figure.data
    assert (list(squares.x), list(squares.y)) == (["a", "b"], ["a", "b", "random"])
    np.testing.assert_allclose(np.array(squares.z, dtype=float), [[0.05, 0.2], [0.15, 0.1], [2.0, 2.0]])
    assert "50 % of the heads off" in figure.layout.xaxis.title.text
    assert math.isclose(squares.zmax, 2.0)
