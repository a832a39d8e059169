"""Figures of one score array: how scores are spread, and how they add up by layer."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import plotly.graph_objects as go

from headlens.charts.theme import look, styled

BINS = 48
_SITES = {"self": "self-attention", "enc": "encoder", "dec": "decoder", "cross": "cross-attention"}


def distribution(values: Mapping[str, np.ndarray], *, unit: str, dark: bool = False) -> go.Figure:
    """Histogram of the scores of all heads; ``values`` are ``[layer, head]`` by site, NaN left out."""
    flat = np.concatenate([array[np.isfinite(array)] for array in values.values()]) if values else np.empty(0)
    colours = look(dark)
    figure = go.Figure()
    size = float(np.ptp(flat)) / BINS if len(flat) else 0.0
    # Bins begin at 0, so that none holds both heads that help and heads that harm.
    first = float(np.floor(flat.min() / size) * size) if size else 0.0
    bins = {"start": first, "end": float(flat.max()) + size, "size": size} if size else None
    for part, colour, name in (
        (flat[flat >= 0], colours.helps, "0 or more"),
        (flat[flat < 0], colours.harms, "below 0"),
    ):
        if len(part):
            figure.add_histogram(
                x=part,
                xbins=bins,
                name=name,
                marker={"color": colour},
                hovertemplate="%{y} heads score %{x}<extra></extra>",
            )
    figure.update_layout(barmode="overlay", showlegend=False)
    figure.add_vline(x=0, line={"color": colours.faint, "width": 1})
    return styled(figure, dark=dark, title="How the scores are spread", x=f"score ({unit})", y="number of heads")


def by_layer(values: Mapping[str, np.ndarray], *, unit: str, dark: bool = False) -> go.Figure:
    """Sum of positive and of negative scores in each layer; ``values`` are ``[layer, head]`` by site."""
    colours = look(dark)
    figure = go.Figure()
    for number, (site, array) in enumerate(values.items()):
        name = _SITES.get(site, site)
        dash = ("", "/", "x")[number % 3]
        for sign, colour in ((1, colours.helps), (-1, colours.harms)):
            word = "help" if sign > 0 else "harm"
            totals = np.nansum(np.where(sign * array > 0, array, 0.0), axis=1)
            if not totals.any():
                continue
            figure.add_bar(
                x=[f"L{layer}" for layer in range(len(totals))],
                y=totals,
                name=word if len(values) == 1 else f"{name}, {word}",
                marker={"color": colour, "pattern": {"shape": dash}},
                hovertemplate="%{x}: %{y:.4f}<extra></extra>",
            )
    figure.update_layout(barmode="relative")
    styled(figure, dark=dark, title="Sum of the scores in each layer", x="layer", y=f"sum of scores ({unit})")
    figure.update_layout(showlegend=len(figure.data) > 1)  # type: ignore[arg-type]
    if len(values) == 1:
        figure.update_layout(legend={"x": 1, "xanchor": "right", "y": 1.02})  # beside the title
    else:
        figure.update_layout(legend={"y": -0.34, "yanchor": "top"}, height=360)
    return figure
