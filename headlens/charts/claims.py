"""The small figures of claims: bars or lines with their 95 % intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import plotly.graph_objects as go

from headlens.charts.lab import DASHES, colour
from headlens.charts.theme import look, styled

if TYPE_CHECKING:
    from headlens.claims.base import Figure, Series

HEIGHT = 240


def claim_figure(shown: Figure, *, dark: bool = False) -> go.Figure:
    """Draws the data of a figure; the dashed line is the limit that the rule speaks of."""
    figure = go.Figure()
    for number, series in enumerate(shown.series):
        common: dict[str, Any] = {"x": list(series.x), "y": list(series.y), "name": series.name}
        bars = _error_bars(series, look(dark).text)
        if shown.kind == "bars":
            figure.add_bar(**common, error_y=bars, marker={"color": colour(number, dark)})
        else:
            line = {"color": colour(number, dark), "dash": DASHES[number % 2]}
            figure.add_scatter(**common, error_y=bars, mode="lines+markers", line=line)
    if shown.limit is not None:
        figure.add_hline(y=shown.limit, line={"color": look(dark).faint, "dash": "dash", "width": 1})
    styled(figure, dark=dark, title="", x=shown.x, y=shown.y, height=HEIGHT)
    figure.update_layout(margin={"l": 8, "r": 8, "t": 28, "b": 8}, showlegend=len(shown.series) > 1)
    if shown.kind == "bars":
        figure.update_xaxes(type="category")
    return figure


def _error_bars(series: Series, colour_of: str) -> dict[str, Any] | None:
    """Both ends as distances; an end that is not known has none."""
    if not series.low or not series.high:
        return None
    above = [_distance(high, y) for y, high in zip(series.y, series.high, strict=True)]
    below = [_distance(y, low) for y, low in zip(series.y, series.low, strict=True)]
    return {"type": "data", "symmetric": False, "array": above, "arrayminus": below, "color": colour_of, "thickness": 1}


def _distance(upper: float | None, lower: float | None) -> float:
    return 0.0 if upper is None or lower is None else max(0.0, upper - lower)
