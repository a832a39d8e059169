"""Figures of the training after a cut."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from headlens.charts.recovery import recovery_comparison, recovery_curve
from headlens.pruning.outcomes import Outcome
from headlens.pruning.recovery_table import RecoveryTable, Row
from headlens.pruning.training_state import Progress

POINTS = [
    Progress(0, math.nan, 3.0, 0.1, True, 0.0),
    Progress(5, 2.9, 2.5, 0.2, True, 1.0),
    Progress(10, 2.1, 2.7, 0.3, False, 2.0),
]


def outcome(value: float) -> Outcome:
    """Four examples of that loss."""
    losses = value + np.array([0.1, -0.1, 0.0, 0.0])
    return Outcome("causal-lm", {"numerator/loss": losses, "weight/loss": np.ones(4)})


def traces(figure: Any) -> dict[str, Any]:
    return {trace.name: trace for trace in figure.data}


@pytest.mark.parametrize("dark", [False, True])
def test_the_curve_shows_evaluations_and_the_best(dark: bool) -> None:
    found = traces(recovery_curve(POINTS, "loss", steps=20, dark=dark))
    watched = found["watched examples"]
    assert list(watched.x) == [0, 5, 10]
    assert list(watched.y) == [3.0, 2.5, 2.7]
    assert list(watched.error_y.array) == pytest.approx([0.196, 0.392, 0.588])
    assert (list(found["best so far"].x), list(found["best so far"].y)) == ([5], [2.5])
    (training,) = (trace for name, trace in found.items() if name.startswith("training"))
    assert list(training.y) == [2.9, 2.1]


def test_an_objective_of_another_unit_is_not_drawn_beside_the_loss() -> None:
    assert not any(name.startswith("training") for name in traces(recovery_curve(POINTS, "loss", objective="distill")))
    assert any(name.startswith("training") for name in traces(recovery_curve(POINTS, "drift", objective="distill")))
    assert recovery_curve([], "loss").data is not None


def test_the_comparison_shows_every_row_with_its_error() -> None:
    rows = (
        Row("full", None, 8, "none", outcome(1.0)),
        Row("cut", None, 4, "L0", outcome(2.0)),
        Row("cut + recovered", None, 4, "L0", outcome(1.2), 5, 10, 1.0),
        Row("random cut", 0, 4, "L1", outcome(2.5)),
        Row("random cut + recovered", 0, 4, "L1", outcome(1.3), 5, 10, 1.0),
    )
    found = traces(recovery_comparison(RecoveryTable(rows, "loss")))
    assert list(found["cut"].x) == [2.0]
    assert list(found["random cut + recovered"].y) == ["random cut + recovered 1"]
    error = 1.96 * math.sqrt(4 / 3 * 0.02) / 4
    assert list(found["full"].error_x.array) == pytest.approx([error])


def test_the_axis_has_the_unit_of_what_is_watched() -> None:
    assert recovery_curve(POINTS, "loss").layout.yaxis.title.text == "loss (nats per prediction)"  # type: ignore[attr-defined]
    assert recovery_curve(POINTS, "drift").layout.yaxis.title.text == "drift (1 - cosine)"  # type: ignore[attr-defined]
