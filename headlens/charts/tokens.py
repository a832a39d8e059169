"""Next-token probabilities before and after a switch."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from headlens.charts.theme import look, styled


def before_after(
    labels: Sequence[str], before: Sequence[float], after: Sequence[float] | None, *, dark: bool = False
) -> go.Figure:
    """Paired bars of probabilities; ``after`` None while nothing is off."""
    colours = look(dark)
    order = list(range(len(labels)))[::-1]
    names = [labels[i] for i in order]
    figure = go.Figure()
    if after is not None:
        figure.add_bar(
            y=names,
            x=[after[i] for i in order],
            orientation="h",
            name="with heads off",
            marker={"color": colours.after},
        )
    figure.add_bar(
        y=names, x=[before[i] for i in order], orientation="h", name="all on", marker={"color": colours.before}
    )
    figure.update_traces(hovertemplate="%{y}: %{x:.1%}<extra></extra>")
    figure.update_layout(barmode="group", legend={"traceorder": "reversed"})
    figure.update_xaxes(tickformat=".0%", rangemode="tozero")
    return styled(figure, dark=dark, title="Next token", x="probability", y="", height=60 + 44 * max(1, len(labels)))
