"""Two scores of the same heads against each other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from headlens.charts.theme import look, styled


def scatter(
    labels: Sequence[str],
    first: np.ndarray,
    second: np.ndarray,
    *,
    names: tuple[str, str],
    units: tuple[str, str],
    top: int,
    dark: bool = False,
) -> go.Figure:
    """One point a head; the heads that are among the ``top`` of both scores stand out in shape and colour.

    Args:
        labels: of the heads.
        first, second: their scores ``[heads]``, larger is more important.
        names, units: of the two scores.
        top: how many of the most important heads of each score are compared.
        dark: for a dark page.
    """
    colours = look(dark)
    both = np.zeros(len(labels), dtype=bool)
    shared = set(np.argsort(-first, kind="stable")[:top]) & set(np.argsort(-second, kind="stable")[:top])
    both[list(shared)] = True
    figure = go.Figure()
    for mask, name, colour, symbol in (
        (~both, "other heads", colours.faint, "circle-open"),
        (both, f"in the top {top} of both", colours.helps, "diamond"),
    ):
        chosen = np.flatnonzero(mask).tolist()
        figure.add_scatter(
            x=first[chosen],
            y=second[chosen],
            text=[labels[i] for i in chosen],
            name=name,
            mode="markers",
            marker={"color": colour, "symbol": symbol, "size": 7},
            hovertemplate="%{text}: %{x:.4g} and %{y:.4g}<extra></extra>",
        )
    axes = [f"{name} ({unit})" for name, unit in zip(names, units, strict=True)]
    return styled(figure, dark=dark, title="Each point is a head", x=axes[0], y=axes[1], height=380)
