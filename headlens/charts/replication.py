"""Rankings against rankings, and heads chosen here switched off there: a table of squares with the number in each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import plotly.graph_objects as go

from headlens.charts.theme import look, styled

if TYPE_CHECKING:
    from headlens.replication import Replication
    from headlens.replication_curves import CurveReplication

LEGIBLE = 12
"""Up to so many columns have their numbers written in the squares; all have them on hover."""


def correlations(found: Replication, *, dark: bool = False) -> go.Figure:
    """Rank correlation of every two rankings; the diagonal is the ranking with itself and stays empty."""
    names = list(found.names)
    values = np.full((len(names), len(names)), np.nan)
    words = [[""] * len(names) for _ in names]
    for pair in found.pairs:
        one, two = names.index(pair.agreement.first), names.index(pair.agreement.second)
        for row, column in ((one, two), (two, one)):
            values[row, column] = pair.rho.value
            words[row][column] = f"rho {pair.rho}"
    return _squares(names, names, values, words, (-1.0, 1.0), "rank correlation", dark=dark)


def transfers(found: CurveReplication, *, dark: bool = False) -> go.Figure:
    """Cost on each set (across) of the heads chosen on each (down), at the largest share of heads off."""
    share = max(each.fraction for each in found.transfers)
    last = [each for each in found.transfers if each.fraction == share]
    across = list(dict.fromkeys(each.measured_on for each in last))
    down = list(dict.fromkeys(each.chosen_on for each in last))
    values = np.full((len(down) + 1, len(across)), np.nan)
    words = [[""] * len(across) for _ in range(len(down) + 1)]
    for each in last:
        row, column = down.index(each.chosen_on), across.index(each.measured_on)
        values[row, column], values[-1, column] = each.cost, each.random
        words[row][column] = f"cost {each.cost:.3f} ± {each.sem:.3f}"
        words[-1][column] = f"random orders cost {each.random:.3f} ({each.random_low:.3f} to {each.random_high:.3f})"
    top = float(np.nanmax(np.abs(values))) or 1.0
    figure = _squares(across, [*down, "random"], values, words, (-top, top), "cost", dark=dark)
    figure.update_xaxes(title_text=f"measured on ({100 * share:.0f} % of the heads off)")
    figure.update_yaxes(title_text="heads chosen on")
    return figure


def _squares(
    across: Sequence[str],
    down: Sequence[str],
    values: np.ndarray,
    words: Sequence[Sequence[str]],
    span: tuple[float, float],
    title: str,
    *,
    dark: bool,
) -> go.Figure:
    """Values ``[down, across]``: blue above 0, orange below, as everywhere."""
    colours = look(dark)
    middle = "#252d3a" if dark else "#f2f4f8"
    written = [[f"{value + 0.0:.2f}" if np.isfinite(value) else "" for value in np.round(row, 2)] for row in values]
    figure = go.Figure(
        go.Heatmap(
            x=list(across),
            y=list(down),
            z=[[float(value) if np.isfinite(value) else None for value in row] for row in values],
            text=written if len(across) <= LEGIBLE else None,
            texttemplate="%{text}" if len(across) <= LEGIBLE else None,
            customdata=words,
            hovertemplate="%{y} and %{x}: %{customdata}<extra></extra>",
            zmin=span[0],
            zmax=span[1],
            colorscale=[[0.0, colours.harms], [0.5, middle], [1.0, colours.helps]],
            xgap=2,
            ygap=2,
            hoverongaps=False,
            showscale=len(across) > LEGIBLE,
            colorbar={"title": {"text": title, "side": "right"}, "thickness": 12},
        )
    )
    styled(figure, dark=dark, title="", x="", y="", height=130 + 42 * len(down))
    figure.update_xaxes(showgrid=False, side="bottom")
    figure.update_yaxes(showgrid=False, autorange="reversed")
    figure.update_layout(margin={"t": 16})
    return figure
