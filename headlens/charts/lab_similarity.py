"""How alike the heads of a layer are, before and after training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import plotly.graph_objects as go

from headlens.charts.lab import DASHES, colour, legend_below
from headlens.charts.theme import look, styled

if TYPE_CHECKING:
    from headlens.lab.similarity import LayerSimilarity


def alike_by_layer(series: Mapping[str, Sequence[LayerSimilarity]], *, dark: bool = False) -> go.Figure:
    """Mean CKA of the pairs of each layer, one line a series; the dotted lines are what chance gives."""
    figure = go.Figure()
    for number, (name, layers) in enumerate(series.items()):
        names = [f"L{layer.layer}" if layer.site == "self" else f"{layer.site} L{layer.layer}" for layer in layers]
        figure.add_scatter(
            x=names,
            y=[layer.mean_cka for layer in layers],
            customdata=[[layer.rank, layer.heads, layer.smallest, layer.most_alike] for layer in layers],
            name=name,
            mode="lines+markers",
            line={"color": colour(number, dark), "dash": DASHES[number % 2]},
            hovertemplate=name + "<br>%{x}: mean CKA %{y:.2f}, the most alike pair %{customdata[3]:.2f}"
            "<br>rank %{customdata[0]} of %{customdata[1]}, smallest singular value %{customdata[2]:.2g} of the largest"
            "<extra></extra>",
        )
        figure.add_scatter(
            x=names,
            y=[layer.shuffled for layer in layers],
            name=f"{name}, chance",
            mode="lines",
            line={"color": look(dark).faint, "dash": "dot", "width": 1},
            hoverinfo="skip",
            showlegend=False,
        )
    styled(figure, dark=dark, title="How alike heads are", x="layer", y="mean linear CKA of pairs", height=340)
    figure.update_yaxes(range=[-0.03, 1.03])
    return legend_below(figure)
