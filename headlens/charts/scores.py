"""Figures of one score array: how scores are spread, and how they add up by layer."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import plotly.graph_objects as go

from headlens.charts.theme import look, styled

_SITES = {"self": "self-attention", "enc": "encoder", "dec": "decoder", "cross": "cross-attention"}


def distribution(values: Mapping[str, np.ndarray], *, unit: str, dark: bool = False) -> go.Figure:
    """Histogram of the scores of all heads; ``values`` are ``[layer, head]`` by site, NaN left out."""
    flat = np.concatenate([array[np.isfinite(array)] for array in values.values()]) if values else np.empty(0)
    colours = look(dark)
    figure = go.Figure(
        go.Histogram(
            x=flat, nbinsx=60, marker={"color": colours.helps}, hovertemplate="%{y} heads score %{x}<extra></extra>"
        )
    )
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
            totals = np.nansum(np.where(sign * array > 0, array, 0.0), axis=1)
            if not totals.any():
                continue
            figure.add_bar(
                x=[f"L{layer}" for layer in range(len(totals))],
                y=totals,
                name=f"{name}, {'help' if sign > 0 else 'harm'}",
                marker={"color": colour, "pattern": {"shape": dash}},
                hovertemplate="%{x}: %{y:.4f}<extra></extra>",
            )
    figure.update_layout(barmode="relative")
    return styled(figure, dark=dark, title="Sum of the scores in each layer", x="layer", y=f"sum of scores ({unit})")
