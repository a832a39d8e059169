"""Next-token probabilities before and after a switch."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from headlens.charts.theme import look, styled


def before_after(
    labels: Sequence[str],
    before: Sequence[float],
    after: Sequence[float] | None,
    *,
    title: str = "Next token",
    dark: bool = False,
) -> go.Figure:
    """Paired bars of probabilities, first label on top.

    Args:
        labels: tokens as a person reads them; two may read alike, and none is read as markup.
        before, after: probabilities in 0..1; ``after`` None while nothing is off.
        title: of the figure.
        dark: theme.
    """
    colours = look(dark)
    places = list(range(len(labels)))  # numbers, since a category axis would put labels that read alike together
    names = [literal(label) for label in labels]
    figure = go.Figure()
    bars = [("all on", before, colours.before)]
    if after is not None:
        bars.append(("with heads off", after, colours.after))
    for name, values, colour in bars:
        figure.add_bar(
            y=places,
            x=list(values),
            orientation="h",
            name=name,
            marker={"color": colour},
            customdata=names,
            text=[f"{value:.1%}" for value in values],
            textposition="outside",
            cliponaxis=False,
            hovertemplate="%{customdata}: %{x:.2%}<extra>" + name + "</extra>",
        )
    shown: list[float] = [*before, *(after or [])]
    most = max(shown) if shown else 1.0
    figure.update_layout(barmode="group", bargap=0.25, showlegend=after is not None)
    height = 84 + (40 if after is not None else 28) * max(1, len(labels))
    styled(figure, dark=dark, title=title, x="probability", y="", height=height)
    figure.update_xaxes(tickformat=".0%", range=[0, 1.18 * most or 1], fixedrange=True)
    figure.update_yaxes(
        tickvals=places, ticktext=names, autorange="reversed", fixedrange=True, showgrid=False, zeroline=False
    )
    return figure


def literal(text: str) -> str:
    """The text as plotly shows it letter by letter: its labels would read tags otherwise."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
