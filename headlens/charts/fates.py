"""Roles, a line each: what their heads score, and when they go (Voita et al. 2019, figure 8, beside chance)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from headlens.charts.theme import look, styled
from headlens.roles.registry import DETECTORS
from headlens.roles.standing import role_scores

if TYPE_CHECKING:
    from headlens.roles.fate import Fates
    from headlens.scores import HeadScores


def role_fates(found: Fates, scores: HeadScores, *, unit: str = "", dark: bool = False) -> go.Figure:
    """Left: score of every head of a role. Right: the share of heads that are off when it goes.

    The grey bar is where 95 % of random orders let the role's last head go.
    """
    colours = look(dark)
    figure = make_subplots(1, 2, shared_yaxes=True, horizontal_spacing=0.05)
    names = [f"{DETECTORS[fate.role].title} ({len(fate.heads)})" for fate in found.fates]
    last = [fate.departures[-1] for fate in found.fates]
    figure.add_scatter(
        x=[100 * gone.expected for gone in last],
        y=names,
        error_x={
            "type": "data",
            "symmetric": False,
            "array": [100 * (gone.high - gone.expected) for gone in last],
            "arrayminus": [100 * (gone.expected - gone.low) for gone in last],
            "color": colours.faint,
            "thickness": 5,
            "width": 0,
        },
        mode="markers",
        marker={"symbol": "line-ns-open", "size": 12, "color": colours.text},
        name="the last one in random order, 95 %",
        hovertemplate="%{y}: last one by chance at %{x:.0f} %<extra></extra>",
        row=1,
        col=2,
    )
    for name, fate in zip(names, found.fates, strict=True):
        labels = [scores.topology.label(head.site, head.layer, head.head) for head in fate.heads]
        for column, x in (
            (1, role_scores(fate, scores)),
            (2, [100 * gone.fraction for gone in fate.departures]),
        ):
            figure.add_scatter(
                x=x,
                y=[name] * len(x),
                text=labels,
                mode="markers",
                name="heads of the role",
                legendgroup="heads",
                showlegend=column == 1 and name == names[0],
                marker={"size": 9, "color": colours.helps, "opacity": 0.8, "line": {"width": 1, "color": colours.text}},
                hovertemplate="%{text}: %{x:.3g}<extra>" + name + "</extra>",
                row=1,
                col=column,
            )
    styled(figure, dark=dark, title="", x="", y="", height=130 + 30 * len(names))
    end = f" ({unit})" if unit else ""
    figure.update_xaxes(title_text=f"score{end}", exponentformat="power", nticks=4, row=1, col=1)
    figure.update_xaxes(title_text="goes at (% off)", range=[-2, 103], row=1, col=2)
    figure.update_yaxes(categoryorder="array", categoryarray=names[::-1])
    figure.update_layout(margin={"t": 40})
    return figure
