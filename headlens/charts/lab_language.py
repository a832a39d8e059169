"""Figures of the language-model comparison and of sharing keys and values."""

from __future__ import annotations

import math
from collections.abc import Sequence

import plotly.graph_objects as go

from headlens.charts.lab import DASHES, colour, legend_below
from headlens.charts.theme import look, styled
from headlens.lab.language_results import ARMS, SHARINGS, Cell, Shared

SYMBOLS = ("circle", "square", "diamond", "cross", "triangle-up", "triangle-down", "star")


def gaps(found: Sequence[Cell], *, dark: bool = False) -> go.Figure:
    """Gap against heads a layer, one line an arm, error bars over seeds; the large model is a dashed line."""
    figure = go.Figure()
    sizes = sorted({cell.heads for cell in found if cell.arm in ARMS}, reverse=True)
    for number, (arm, title) in enumerate(ARMS.items()):
        own = sorted((cell for cell in found if cell.arm == arm), key=lambda cell: -cell.heads)
        if not own or arm == "pruned-only":  # far off the scale of the others; it is in the table
            continue
        figure.add_scatter(
            # Side by side, so that error bars can be told apart.
            x=[sizes.index(cell.heads) + 0.06 * (number - 2.5) for cell in own],
            y=[cell.mean.value for cell in own],
            error_y={"array": [0.0 if math.isnan(cell.mean.sem) else cell.mean.sem for cell in own]},
            customdata=[len(cell.seeds) for cell in own],
            name=title,
            mode="lines+markers",
            marker={"symbol": SYMBOLS[number], "size": 8},
            line={"color": colour(number, dark), "dash": DASHES[number % len(DASHES)], "width": 1.3},
            hovertemplate=title + "<br>%{y:.3f} nats a token, %{customdata} seeds<extra></extra>",
        )
    for cell in found:
        if cell.arm == "large":
            line = {"color": look(dark).faint, "dash": "dash"}
            figure.add_hline(y=cell.mean.value, line=line, annotation_text=f"{cell.heads} heads, nothing removed")
    title = "Loss above the best possible one"
    styled(figure, dark=dark, title=title, x="heads a layer", y="gap (nats a token)", height=460)
    figure.update_xaxes(tickvals=list(range(len(sizes))), ticktext=[str(size) for size in sizes])
    return legend_below(figure)


def loss_against_cache(found: Sequence[Shared], *, dark: bool = False) -> go.Figure:
    """Gap against bytes in the cache a token, one point a way of sharing, error bars over seeds."""
    figure = go.Figure()
    for number, each in enumerate(found):
        figure.add_scatter(
            x=[each.kv_bytes],
            y=[each.gap.value],
            error_y={"array": [0.0 if math.isnan(each.gap.sem) else each.gap.sem]},
            name=SHARINGS[each.sharing],
            mode="markers",
            marker={"symbol": SYMBOLS[number], "size": 11, "color": colour(number, dark)},
            hovertemplate=f"{SHARINGS[each.sharing]}<br>%{{x}} bytes, %{{y:.3f}} nats a token<extra></extra>",
        )
    title = "Loss against the size of the cache"
    styled(figure, dark=dark, title=title, x="KV bytes a token (16-bit)", y="gap (nats a token)", height=340)
    figure.update_xaxes(type="log")
    return legend_below(figure)
