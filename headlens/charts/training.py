"""The loss curve of a brief training while it grows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import plotly.graph_objects as go

from headlens.charts.theme import look, styled

if TYPE_CHECKING:
    from headlens.pruning.training_state import Progress

Z_95 = 1.96


UNITS = {"loss": "nats per prediction", "drift": "1 - cosine"}


def training_curve(
    points: Sequence[Progress], *, metric: str = "loss", distilled: bool = False, dark: bool = False
) -> go.Figure:
    """Objective on the trained examples, and the metric on the watched ones with its 95 % interval, by step.

    Args:
        points: evaluations so far, by step; the best one is marked.
        metric: what is watched.
        distilled: what is trained for is the distance from the full model; beside a loss that has another meaning, so
            it is not drawn there.
        dark: theme.
    """
    colours = look(dark)
    drawn = go.Figure()
    trained = [point for point in points if point.train == point.train]  # NaN before the first step
    if not distilled or metric == "drift":
        drawn.add_scatter(
            x=[point.step for point in trained],
            y=[point.train for point in trained],
            name="trained examples (objective)",
            mode="lines",
            line={"color": colours.faint, "dash": "dot"},
            hovertemplate="step %{x}: %{y:.4g}<extra>trained</extra>",
        )
    drawn.add_scatter(
        x=[point.step for point in points],
        y=[point.watched for point in points],
        error_y={"type": "data", "array": [Z_95 * point.watched_sem for point in points], "thickness": 1.2},
        name=f"watched examples ({metric})",
        mode="lines+markers",
        line={"color": colours.helps, "width": 2},
        hovertemplate="step %{x}: %{y:.4g}<extra>watched</extra>",
    )
    if points:
        best = min(points, key=lambda point: point.watched)
        drawn.add_scatter(
            x=[best.step],
            y=[best.watched],
            name="best, which is kept",
            mode="markers",
            marker={"symbol": "star", "size": 13, "color": colours.harms},
            hovertemplate="step %{x}: %{y:.4g}<extra>best</extra>",
        )
    return styled(drawn, dark=dark, title="Recovery", x="step", y=f"{metric} ({UNITS.get(metric, metric)})", height=320)
