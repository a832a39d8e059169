"""The loss curve of a training: what is drawn, in which unit."""

from __future__ import annotations

import math
from typing import Any

import pytest

from headlens.charts.training import training_curve
from headlens.pruning.training_state import Progress

POINTS = (
    Progress(0, math.nan, 2.0, 0.1, True, 0.0),
    Progress(5, 1.9, 1.6, 0.1, True, 1.0),
    Progress(10, 1.5, 1.7, 0.1, False, 2.0),
)


def drawn(**more: Any) -> dict[str, Any]:
    return {trace.name: trace for trace in training_curve(POINTS, **more).data}  # type: ignore[attr-defined]


def test_the_best_step_is_marked_and_step_0_has_no_training_loss() -> None:
    found = drawn()
    assert list(found["watched examples (loss)"].y) == [2.0, 1.6, 1.7]
    assert list(found["trained examples (objective)"].x) == [5, 10]
    assert (*found["best, which is kept"].x, *found["best, which is kept"].y) == (5, 1.6)


@pytest.mark.parametrize(("metric", "together"), [("loss", False), ("drift", True)])
def test_a_distance_from_the_teacher_is_not_drawn_on_the_axis_of_a_loss(metric: str, together: bool) -> None:
    found = drawn(metric=metric, distilled=True)
    assert ("trained examples (objective)" in found) is together
    assert f"watched examples ({metric})" in found


def test_the_axis_has_the_unit_of_what_is_watched() -> None:
    assert training_curve(POINTS).layout.yaxis.title.text == "loss (nats per prediction)"  # type: ignore[attr-defined]
    figure = training_curve(POINTS, metric="drift")
    assert figure.layout.yaxis.title.text == "drift (1 - cosine)"  # type: ignore[attr-defined]
