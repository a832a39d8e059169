"""The pruning curve with its controls, and the layers that are left with one head."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import plotly.graph_objects as go

from headlens.charts.theme import Look, look, styled
from headlens.significance import Z_95

if TYPE_CHECKING:
    from headlens.pruning.all_but_one import AllButOne
    from headlens.pruning.budget import Within
    from headlens.pruning.chance import Chance
    from headlens.pruning.points import Curve, Point

TITLES = {
    "loss": "Loss",
    "perplexity": "Perplexity",
    "accuracy": "Accuracy",
    "drift": "Drift",
    "kl": "KL from the full model",
    "bleu": "BLEU",
}
UNITS = {
    "loss": "nats per prediction",
    "perplexity": "e to the loss",
    "accuracy": "share of predictions",
    "drift": "nats, or 1 - cosine for encoders",
    "kl": "nats",
    "bleu": "0 to 100",
}
_LINES = {
    "ranked": ("solid", "circle", "least important first"),
    "reverse": ("dash", "square", "most important first"),
    "greedy": ("dot", "triangle-up", "greedy (exact)"),
}


def pruning_curve(
    curve: Curve,
    *,
    figure: str | None = None,
    chance: Chance | None = None,
    budgets: Sequence[Within] = (),
    dark: bool = False,
) -> go.Figure:
    """What is lost against the share of heads off.

    Args:
        curve: a measured curve.
        figure: which figure; None takes the one that the curve is about.
        chance: the 95 % range of one more random order, drawn as a band if it is for the same figure.
        budgets: drawn as lines, those for the same figure.
        dark: theme.
    """
    name = figure or curve.figure
    colours = look(dark)
    drawn = go.Figure()
    if chance is not None and name == curve.figure:
        _band(drawn, chance, colours)
    seeds = curve.random_seeds
    for number, seed in enumerate(seeds):
        marks = {"line": {"color": colours.faint, "width": 1}, "legendgroup": "random", "showlegend": number == 0}
        title = f"random orders ({len(seeds)})" if number == 0 else f"random order {seed}"
        _line(drawn, curve.series("random", seed), name, title, marks)
    styles = {"ranked": colours.helps, "reverse": colours.harms, "greedy": colours.before}
    for series, colour in styles.items():
        dash, symbol, title = _LINES[series]
        points = curve.series(series)
        marks = {"line": {"color": colour, "dash": dash, "width": 2}, "marker": {"symbol": symbol, "size": 7}}
        _line(drawn, points, name, title, {**marks, "mode": "lines+markers"}, error=series == "ranked")
    gates = curve.series("gates")
    marks = {"mode": "markers", "marker": {"symbol": "diamond", "size": 10, "color": colours.text}}
    _line(drawn, gates, name, "learned gates", marks, error=True)
    for one in budgets:
        if one.budget.figure == name:
            worse = -one.limit if str(one.budget).startswith(("accuracy", "bleu")) else one.limit
            drawn.add_hline(
                y=one.baseline + worse,
                line={"color": colours.faint, "width": 1, "dash": "dash"},
                annotation={"text": str(one.budget), "font": {"color": colours.text, "size": 12}},
            )
    where = "held-out examples" if curve.held_out else "the examples they were chosen on"
    styled(
        drawn,
        dark=dark,
        title=f"{TITLES[name]} as heads are switched off ({where})",
        x=f"heads off (% of {curve.steps.heads})",
        y=f"{TITLES[name].lower() if name != 'bleu' else 'BLEU'} ({UNITS[name]})",
        height=440,
    )
    drawn.update_layout(legend={"y": -0.22, "yanchor": "top"})
    return drawn


def _band(drawn: go.Figure, chance: Chance, colours: Look) -> None:
    """The range of one more random order; nothing where fewer than two orders were measured."""
    bands = [band for band in chance.bands if band.low == band.low]  # NaN is not equal to itself
    if not bands:
        return
    x = [100 * band.fraction for band in bands]
    drawn.add_scatter(
        x=[*x, *reversed(x)],
        y=[*(band.high for band in bands), *(band.low for band in reversed(bands))],
        fill="toself",
        fillcolor="rgba(128,140,160,0.22)",
        line={"width": 0},
        mode="lines",
        name="95 % range of a random order",
        hoverinfo="skip",
        marker={"color": colours.faint},
    )


def _line(
    drawn: go.Figure, points: Sequence[Point], figure: str, title: str, marks: dict, *, error: bool = False
) -> None:
    """One series, if the figure applies to it."""
    measured = [(point, point.result.figure(figure)) for point in points]
    found = [(point, one) for point, one in measured if one is not None]
    if not found:
        return
    bars = {"type": "data", "array": [Z_95 * one.delta_sem for _, one in found], "thickness": 1.2, "width": 3}
    texts = []
    for point, one in found:
        penalty = "" if point.penalty is None else f"<br>penalty {point.penalty:g}"
        texts.append(f"{point.heads_off} heads off<br>{one.delta:+.3g} ± {one.delta_sem:.2g} against all on{penalty}")
    drawn.add_scatter(
        x=[100 * point.fraction for point, _ in found],
        y=[one.value for _, one in found],
        name=title,
        text=texts,
        hovertemplate="%{x:.3g} %: %{y:.5g}<br>%{text}<extra>" + title + "</extra>",
        **{"mode": "lines", **marks},
        **({"error_y": bars} if error else {}),
    )


def one_head_left(layers: AllButOne, *, dark: bool = False) -> go.Figure:
    """Change of the metric in each layer with its best head alone, and with a head drawn by the seed."""
    colours = look(dark)
    drawn = go.Figure()
    several = len({one.site for one in layers.layers}) > 1
    names = [f"{one.site}.L{one.layer}" if several else f"L{one.layer}" for one in layers.layers]
    for title, colour, symbol, results, kept in (
        ("best head", colours.helps, "circle", [o.result for o in layers.layers], [o.kept for o in layers.layers]),
        (
            "head by chance",
            colours.faint,
            "x",
            [o.control_result for o in layers.layers],
            [o.control for o in layers.layers],
        ),
    ):
        drawn.add_scatter(
            x=names,
            y=[result.delta for result in results],
            error_y={"type": "data", "array": [Z_95 * result.delta_sem for result in results], "thickness": 1.2},
            mode="markers",
            name=title,
            text=kept,
            marker={"color": colour, "symbol": symbol, "size": 9},
            hovertemplate="%{x} with %{text} alone: %{y:+.4g}<extra>" + title + "</extra>",
        )
    drawn.add_hline(y=0, line={"color": colours.faint, "width": 1})
    what = "head" if layers.unit == "head" else "KV group"
    title = f"Each layer with one {what} alone"
    y = f"change of {layers.metric} ({UNITS[layers.metric]})"
    styled(drawn, dark=dark, title=title, x="layer", y=y, height=380)
    drawn.update_layout(legend={"x": 1, "xanchor": "right", "y": 1.02})
    return drawn
