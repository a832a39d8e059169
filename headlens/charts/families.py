"""Models side by side: one figure of each with its interval, and the published number beside it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import plotly.graph_objects as go

from headlens.charts.theme import look, styled
from headlens.families.sentences import measured

if TYPE_CHECKING:
    from headlens.families.measures import Measure
    from headlens.families.row import Row

ALIKE = 0.5


def side_by_side(measure: Measure, rows: Sequence[Row], *, dark: bool = False) -> go.Figure:
    """A point with its 95 % interval for each model that has the figure; diamonds: published numbers."""
    colours = look(dark)
    shown = measured(measure, rows)
    scale = 100.0 if measure.percent else 1.0
    names = [row.short for row, *_ in shown]
    figure = go.Figure()
    published = [(row.short, found) for row, *_ in shown if (found := row.counterpart(measure)) is not None]
    marks = [(model, found) for model, found in published if found.value is not None]
    if marks:
        figure.add_scatter(
            x=[scale * (found.value or 0.0) for _, found in marks],
            y=[model for model, _ in marks],
            name="published, for this kind of model",
            mode="markers",
            marker={"symbol": "diamond-open", "size": 11, "color": colours.harms, "line": {"width": 2}},
            text=[found.published.line() for _, found in marks],
            hovertemplate="%{text}<extra>published</extra>",
        )
    bars: dict[str, Any] = {
        "type": "data",
        "symmetric": False,
        "array": [scale * (high - value) for _, value, _, high in shown],
        "arrayminus": [scale * (value - low) for _, value, low, _ in shown],
        "thickness": 1.4,
        "width": 4,
    }
    figure.add_scatter(
        x=[scale * value for _, value, *_ in shown],
        y=names,
        error_x=bars,
        name="measured here, 95 % interval",
        mode="markers",
        marker={"size": 9, "color": colours.helps},
        text=[f"{row.kind_title}, {row.heads} heads<br>{row.data}, {row.tokens:,} tokens" for row, *_ in shown],
        hovertemplate="%{y}: %{x:.3g}<br>%{text}<extra></extra>",
    )
    line = {"color": colours.faint, "dash": "dash", "width": 1}
    if measure.name in ("methods", "texts"):
        figure.add_vline(x=ALIKE, line=line)
    elif measure.name == "cross":
        figure.add_vline(x=0, line=line)
    styled(figure, dark=dark, title="", x=_axis(measure, shown), y="", height=110 + 30 * len(names))
    figure.update_layout(margin={"t": 48}, legend={"x": 0, "y": 1.02})
    figure.update_yaxes(categoryorder="array", categoryarray=names[::-1], showgrid=False)
    if measure.percent:
        figure.update_xaxes(range=[-3, 103])
    return figure


def _axis(measure: Measure, shown: Sequence[tuple[Row, float, float, float]]) -> str:
    units = sorted({row.unit for row, *_ in shown})
    return f"{measure.axis} ({', '.join(units)})" if measure.name == "cross" else measure.axis
