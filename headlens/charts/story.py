"""The presenter's figures, from numbers that were measured beforehand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from headlens.charts import theme
from headlens.charts.theme import look

HEIGHT = 430
FONT = 16
"""Read from the back of a room."""


def styled(figure: go.Figure, *, dark: bool, title: str, x: str, y: str) -> go.Figure:
    """As all figures, with larger letters."""
    theme.styled(figure, dark=dark, title=title, x=x, y=y, height=HEIGHT)
    figure.update_layout(font={"size": FONT}, title={"font": {"size": FONT + 3}}, legend={"font": {"size": FONT}})
    figure.update_xaxes(title_font={"size": FONT}, tickfont={"size": FONT - 1})
    return figure.update_yaxes(title_font={"size": FONT}, tickfont={"size": FONT - 1})


def head_map(grid: Sequence[Sequence[float]], *, dark: bool = False) -> go.Figure:
    """Effect of every head, ``[layer][head]`` in nats; colours end at the 98th percentile of the sizes."""
    colours = look(dark)
    array = np.array(grid, dtype=float)
    end = float(np.nanpercentile(np.abs(array), 98)) or 1.0
    middle = "#1c222c" if dark else "#f2f4f8"
    figure = go.Figure(
        go.Heatmap(
            z=array.T,
            zmin=-end,
            zmax=end,
            colorscale=[[0.0, colours.harms], [0.5, middle], [1.0, colours.helps]],
            xgap=2,
            ygap=2,
            hovertemplate="L%{x}H%{y}: %{z:+.4f} nats<extra></extra>",
            colorbar={"title": {"text": "nats"}, "thickness": 12},
        )
    )
    styled(figure, dark=dark, title="What each head alone is worth", x="layer", y="head")
    figure.update_yaxes(autorange="reversed", showgrid=False)
    figure.update_xaxes(showgrid=False)
    return figure


def ordered_effects(grid: Sequence[Sequence[float]], *, dark: bool = False) -> go.Figure:
    """The same effects from the smallest to the largest."""
    colours = look(dark)
    effects = np.sort(np.array(grid, dtype=float).ravel())
    colour = [colours.helps if effect >= 0 else colours.harms for effect in effects]
    figure = go.Figure(
        go.Bar(
            x=np.arange(1, len(effects) + 1),
            y=effects,
            marker={"color": colour, "line": {"width": 0}},
            hovertemplate="%{y:+.4f} nats<extra></extra>",
        )
    )
    figure.update_layout(bargap=0.1)
    title, x = "All heads in order", "heads, from the one that harms most"
    return styled(figure, dark=dark, title=title, x=x, y="change of the loss (nats)")


def curves(together: Mapping[str, Any], *, dark: bool = False) -> go.Figure:
    """Loss against the share of heads off: ranked orders with error bars, random ones as a band."""
    colours = look(dark)
    percent = [100 * fraction for fraction in together["fractions"]]
    random = np.array([[point["loss"] for point in seed] for seed in together["series"]["random"]])
    figure = go.Figure()
    figure.add_scatter(x=percent, y=random.max(0), mode="lines", line={"width": 0}, showlegend=False, hoverinfo="skip")
    figure.add_scatter(
        x=percent,
        y=random.min(0),
        mode="lines",
        fill="tonexty",
        fillcolor="rgba(138,150,166,0.32)",
        line={"width": 0},
        name=f"random, {len(random)} draws",
        hoverinfo="skip",
    )
    lines = (
        ("exact", "least needed first, exact", colours.helps, "solid"),
        ("gradient", "by gradient", colours.harms, "dash"),
    )
    for name, title, colour, dash in lines:
        points = together["series"][name][0]
        figure.add_scatter(
            x=percent,
            y=[point["loss"] for point in points],
            error_y={"type": "data", "array": [point["sem"] for point in points], "thickness": 1.5},
            name=title,
            mode="lines+markers",
            line={"color": colour, "width": 3, "dash": dash},
            hovertemplate="%{x:.0f} % off: %{y:.3f}<extra></extra>",
        )
    title = "Loss on held-out text"
    styled(figure, dark=dark, title=title, x="heads off (%)", y="loss (nats a token)")
    figure.update_layout(legend={"y": -0.3, "yanchor": "top"})
    return figure


def copying(rows: Sequence[Mapping[str, Any]], *, dark: bool = False) -> go.Figure:
    """Change of the loss on text and on copying, for induction heads and for random ones."""
    colours = look(dark)
    figure = go.Figure()
    groups = [f"{row['heads']} heads, {what}" for row in rows for what in ("stories", "copying")]
    for name, colour, shape in (("induction", colours.harms, ""), ("random", colours.before, "/")):
        values, errors = [], []
        for row in rows:
            for part in ("text", "copy"):
                found = row[name][part]
                values.append(float(np.mean(found)))
                spread = float(np.std(found, ddof=1)) if len(found) > 1 else row[name][f"{part}_sem"][0]
                errors.append(spread)
        figure.add_bar(
            x=groups,
            y=values,
            error_y={"type": "data", "array": errors},
            name="strongest induction heads" if name == "induction" else "random heads (mean, ± sd of draws)",
            marker={"color": colour, "pattern": {"shape": shape}},
            hovertemplate="%{x}: %{y:+.3f} nats<extra></extra>",
        )
    title = "What heads that are off cost"
    styled(figure, dark=dark, title=title, x="", y="change of the loss (nats)")
    figure.update_layout(barmode="group", legend={"y": -0.3, "yanchor": "top"})
    return figure


def gaps(values: Sequence[tuple[str, float]], *, dark: bool = False) -> go.Figure:
    """BLEU by which training from scratch is worse, setting by setting."""
    colours = look(dark)
    figure = go.Figure(
        go.Bar(
            x=[value for _, value in values],
            y=[name for name, _ in values],
            orientation="h",
            marker={"color": colours.helps},
            text=[f"{value:.2f}" for _, value in values],
            hovertemplate="%{y}: %{x:.2f} BLEU<extra></extra>",
        )
    )
    title = "Same heads: pruned minus from scratch"
    styled(figure, dark=dark, title=title, x="BLEU (Voita et al. 2019, Table 2)", y="")
    figure.update_yaxes(autorange="reversed")
    return figure
