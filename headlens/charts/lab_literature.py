"""Published numbers as figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

import plotly.graph_objects as go

from headlens.charts.lab import legend_below
from headlens.charts.theme import look, styled

if TYPE_CHECKING:
    from headlens.lab.literature import Literature


def pruned_or_scratch(found: Literature, *, dark: bool = False) -> go.Figure:
    """BLEU against heads kept, pruned and from scratch, one pair of lines a data set."""
    figure, colours = go.Figure(), look(dark)
    everything = found.voita_about["heads_in_all"]
    for data in dict.fromkeys(row.data for row in found.voita):
        rows = [row for row in found.voita if row.data == data]
        whole = found.voita_about["all_heads"][data]
        for name, values, colour, dash in (
            ("pruned", [row.pruned for row in rows], colours.helps, "solid"),
            ("from scratch", [row.scratch for row in rows], colours.harms, "dash"),
        ):
            figure.add_scatter(
                x=[everything, *(row.kept for row in rows)],
                y=[whole, *values],
                name=f"{data.split(',')[0]}, {name}",
                mode="lines+markers",
                line={"color": colour, "dash": dash},
                marker={"symbol": "circle" if data.startswith("WMT") else "diamond", "size": 7},
                hovertemplate=f"{data}, {name}<br>%{{x}} of {everything} heads: %{{y:.2f}} BLEU<extra></extra>",
            )
    title = "Translation quality with few heads"
    styled(figure, dark=dark, title=title, x=f"heads kept (of {everything})", y="BLEU", height=420)
    return legend_below(figure)
