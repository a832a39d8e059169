"""The training after a cut: the live curve, and the models side by side with the controls."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import plotly.graph_objects as go

from headlens.charts.theme import look, styled
from headlens.significance import Z_95

if TYPE_CHECKING:
    from headlens.pruning.recovery_table import RecoveryTable
    from headlens.pruning.training_state import Progress

UNITS = {"loss": "nats per prediction", "drift": "1 - cosine"}
"""Drift is watched of bare encoders only; see :func:`headlens.pruning.recovery.recover`."""


def recovery_curve(
    points: Sequence[Progress], metric: str, *, objective: str = "task", steps: int | None = None, dark: bool = False
) -> go.Figure:
    """The watched examples over the steps, with the best step marked, and the training objective where it compares.

    Args:
        points: evaluations so far, also of a training that goes on.
        metric: what is watched, ``loss`` or ``drift``.
        objective: ``task`` or ``distill``; the objective is drawn where it has the unit of the metric.
        steps: end of the axis; None ends at the last point.
        dark: theme.
    """
    colours = look(dark)
    drawn = go.Figure()
    learned = [point for point in points if not math.isnan(point.train)]
    if learned and (objective == "task" or metric == "drift"):
        drawn.add_scatter(
            x=[point.step for point in learned],
            y=[point.train for point in learned],
            name="training (mean since the last evaluation)",
            mode="lines",
            line={"color": colours.faint, "dash": "dash", "width": 2},
            hovertemplate="step %{x}: %{y:.4g}<extra>training</extra>",
        )
    drawn.add_scatter(
        x=[point.step for point in points],
        y=[point.watched for point in points],
        error_y={"type": "data", "array": [Z_95 * point.watched_sem for point in points], "thickness": 1.2},
        name="watched examples",
        mode="lines+markers",
        line={"color": colours.helps, "width": 2},
        hovertemplate="step %{x}: %{y:.4g}<extra>watched</extra>",
    )
    best = [point for point in points if point.best]
    if best:
        drawn.add_scatter(
            x=[best[-1].step],
            y=[best[-1].watched],
            name="best so far",
            mode="markers",
            marker={"symbol": "diamond", "size": 13, "color": colours.after},
            hovertemplate="step %{x}: %{y:.4g}<extra>best so far</extra>",
        )
    styled(drawn, dark=dark, title="Training after the cut", x="step", y=f"{metric} ({UNITS[metric]})", height=360)
    if steps:
        drawn.update_xaxes(range=[-0.02 * steps, 1.02 * steps])
    drawn.update_layout(legend={"y": -0.24, "yanchor": "top"})
    return drawn


def recovery_comparison(table: RecoveryTable, *, dark: bool = False) -> go.Figure:
    """Every model of the table with its 95 % interval over examples; random cuts in a colour of their own."""
    colours = look(dark)
    drawn = go.Figure()
    kinds = {
        "full": (colours.before, "square"),
        "full + the same training": (colours.before, "square-open"),
        "cut": (colours.harms, "circle"),
        "cut + recovered": (colours.helps, "diamond"),
        "random cut": (colours.faint, "circle-open"),
        "random cut + recovered": (colours.faint, "diamond-open"),
    }
    for name, (colour, symbol) in kinds.items():
        rows = table.named(name)
        if not rows:
            continue
        values = [row.outcome.value(table.metric) for row in rows]
        labels = [name if row.seed is None else f"{name} {row.seed + 1}" for row in rows]
        drawn.add_scatter(
            x=[value for value, _ in values],
            y=labels,
            error_x={"type": "data", "array": [Z_95 * sem for _, sem in values], "thickness": 1.4},
            name=name,
            mode="markers",
            marker={"symbol": symbol, "size": 11, "color": colour},
            text=[f"{row.heads} heads" for row in rows],
            hovertemplate="%{y}: %{x:.4g}, %{text}<extra></extra>",
        )
    unit = f"{table.metric} ({UNITS[table.metric]}), less is better"
    height = 140 + 30 * len(table.rows)
    styled(drawn, dark=dark, title="Before and after training", x=unit, y="", height=height)
    drawn.update_layout(showlegend=False)
    drawn.update_yaxes(autorange="reversed")
    return drawn
