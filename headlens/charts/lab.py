"""Figures of the over-provisioning lab: learning curves, what heads attend to, success rates, pruning."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import plotly.graph_objects as go

from headlens.charts.theme import look, styled

if TYPE_CHECKING:
    from headlens.lab.arms import Tally
    from headlens.lab.results import RunResult

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#8a6d00", "#56b4e9")
DARK_COLOURS = ("#6db8f2", "#ff9d5c", "#4fd1a5", "#f0a8d0", "#e0c24a", "#a8dcff")
"""Told apart by people with colour-blindness too (Okabe and Ito 2008, darkened or brightened for the page)."""
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
Curve = Sequence[tuple[int, float]]


def colour(number: int, dark: bool) -> str:
    """The colour of the series of that number."""
    chosen = DARK_COLOURS if dark else COLOURS
    return chosen[number % len(chosen)]


def learning_curves(
    series: Mapping[str, Sequence[Curve]], *, guessing: float, symbol: float, dark: bool = False
) -> go.Figure:
    """One thin line a seed, one colour and dash a kind of run.

    Args:
        series: title of the kind -> its curves, points (step, bits).
        guessing: loss in bits of guessing.
        symbol: what one missing distance costs in bits; grid lines stand at its multiples.
        dark: for a dark page.
    """
    figure = go.Figure()
    for number, (title, curves) in enumerate(series.items()):
        for place, curve in enumerate(curve for curve in curves if curve):
            figure.add_scatter(
                x=[step for step, _ in curve],
                y=[bits for _, bits in curve],
                name=title,
                legendgroup=title,
                showlegend=place == 0,
                mode="lines",
                line={"color": colour(number, dark), "dash": DASHES[number % len(DASHES)], "width": 1.6},
                hovertemplate=f"{title}<br>step %{{x}}: %{{y:.3f}} bits<extra></extra>",
            )
    styled(figure, dark=dark, title="Loss while training, one line a seed", x="step", y="loss (bits)", height=380)
    figure.update_yaxes(range=[-0.04 * guessing, 1.06 * guessing], dtick=symbol)
    return legend_below(figure)


def legend_below(figure: go.Figure) -> go.Figure:
    """Many or long names do not fit beside the title."""
    figure.update_layout(legend={"y": -0.22, "yanchor": "top"})
    return figure


def attention_map(result: RunResult, *, dark: bool = False) -> go.Figure:
    """Which distance each head of one run attends to; the task's distances are marked, missed ones named."""
    task = result.spec.task
    distances = list(range(task.first + 1))
    heads = [f"head {label}" for label in result.heads]
    figure = go.Figure()
    figure.add_heatmap(
        z=[list(row) for row in result.attention],
        x=[str(distance) for distance in distances],
        y=heads,
        zmin=0,
        zmax=1,
        colorscale=[[0, "rgba(0,0,0,0)"], [1, look(dark).helps]],
        showscale=False,  # a few rows leave no room for it; the weight is told on hover
        hovertemplate="%{y} gives distance %{x} a mean weight of %{z:.3f}<extra></extra>",
    )
    for distance, bits in zip(task.distances, result.by_distance, strict=True):
        missed = bits > task.bits_a_distance / 2
        figure.add_annotation(
            x=str(distance),
            y=1.0,
            yref="paper",
            yanchor="bottom",
            showarrow=False,
            text=f"{'missed ' if missed else ''}{bits:.2f}",
            font={"color": look(dark).harms if missed else look(dark).text, "size": 12},
        )
    title = "Attention by distance; on top: bits lost at each distance of the task"
    height = 150 + 22 * len(heads)
    styled(figure, dark=dark, title=title, x="distance back (tokens)", y="", height=height)
    figure.update_layout(margin={"t": 70})
    figure.update_yaxes(autorange="reversed", showgrid=False)
    figure.update_xaxes(showgrid=False)
    return figure


def success_rates(tallies: Sequence[Tally], *, dark: bool = False) -> go.Figure:
    """Success rate of each arm with its exact 95 % interval; arms without a run are left out."""
    shown = [tally for tally in tallies if tally.rate.runs]
    colours = look(dark)
    figure = go.Figure()
    values = [tally.rate.value for tally in shown]
    bounded = [not math.isnan(tally.rate.low) for tally in shown]
    up = [t.rate.high - t.rate.value if has else 0.0 for t, has in zip(shown, bounded, strict=True)]
    down = [t.rate.value - t.rate.low if has else 0.0 for t, has in zip(shown, bounded, strict=True)]
    figure.add_scatter(
        x=values,
        y=_lines([tally.arm.title for tally in shown]),
        mode="markers",
        marker={"color": colours.helps, "size": 9},
        error_x={"array": up, "arrayminus": down, "color": colours.faint, "thickness": 2},
        customdata=[tally.rate.words() for tally in shown],
        hovertemplate="%{y}<br>%{customdata}<extra></extra>",
    )
    title = "Share of seeds that succeed, with exact 95 % intervals"
    styled(figure, dark=dark, title=title, x="success rate", y="", height=110 + 44 * max(1, len(shown)))
    figure.update_xaxes(range=[-0.03, 1.03], tickformat=".0%")
    figure.update_yaxes(autorange="reversed")
    return figure


def losses(tallies: Sequence[Tally], *, dark: bool = False) -> go.Figure:
    """Loss of every seed of each arm; the dashed line is the limit of success."""
    shown = [tally for tally in tallies if tally.rate.runs]
    colours = look(dark)
    figure = go.Figure()
    for number, tally in enumerate(shown):
        count = len(tally.losses)
        figure.add_scatter(
            x=list(tally.losses),
            # Seeds of equal loss would hide each other, so they stand a little apart.
            y=[number + 0.5 * ((place + 0.5) / count - 0.5) for place in range(count)],
            mode="markers",
            marker={"color": colour(number, dark), "size": 7, "opacity": 0.8},
            customdata=list(tally.seeds),
            hovertemplate=f"{tally.arm.title}<br>seed %{{customdata}}: %{{x:.3f}} bits<extra></extra>",
            showlegend=False,
        )
    if shown:
        figure.add_vline(x=shown[0].arm.limit, line={"color": colours.faint, "width": 1, "dash": "dash"})
    title = "Loss of each seed"
    styled(figure, dark=dark, title=title, x="held-out loss (bits)", y="", height=110 + 44 * max(1, len(shown)))
    names = _lines([tally.arm.title for tally in shown])
    figure.update_yaxes(tickvals=list(range(len(shown))), ticktext=names, autorange="reversed", zeroline=False)
    return figure


def pruning_paths(results: Sequence[RunResult], *, guessing: float, dark: bool = False) -> go.Figure:
    """Loss against the number of heads that greedy pruning keeps, one line a run."""
    figure = go.Figure()
    sizes = sorted({result.spec.architecture.heads for result in results})
    for result in results:
        heads = result.spec.architecture.heads
        number = sizes.index(heads)
        figure.add_scatter(
            x=list(range(len(result.by_size))),
            y=[min(bits, 1.5 * guessing) for bits in result.by_size],
            name=f"{heads} heads trained",
            legendgroup=str(heads),
            showlegend=result is next(r for r in results if r.spec.architecture.heads == heads),
            mode="lines+markers",
            marker={"size": 4},
            line={"color": colour(number, dark), "dash": DASHES[number % len(DASHES)], "width": 1.4},
            hovertemplate=f"seed {result.spec.training.seed}: %{{x}} heads kept, %{{y:.3f}} bits<extra></extra>",
        )
    figure.add_hline(y=guessing, line={"color": look(dark).faint, "dash": "dash"}, annotation_text="guessing")
    styled(figure, dark=dark, title="Pruned without retraining", x="heads kept", y="held-out loss (bits)", height=340)
    figure.update_yaxes(range=[-0.06 * guessing, 1.55 * guessing])
    figure.update_xaxes(dtick=1)
    return legend_below(figure)


def prunable_share(results: Sequence[RunResult], *, dark: bool = False) -> go.Figure:
    """Share of heads that could go, against the steps done; a gap where nothing has been learnt yet."""
    figure = go.Figure()
    sizes = sorted({result.spec.architecture.heads for result in results})
    for number, heads in enumerate(sizes):
        for place, result in enumerate(r for r in results if r.spec.architecture.heads == heads):
            figure.add_scatter(
                x=[c.step for c in result.checkpoints],
                y=[c.share for c in result.checkpoints],
                customdata=[c.bits for c in result.checkpoints],
                name=f"{heads} heads",
                legendgroup=str(heads),
                showlegend=place == 0,
                mode="lines+markers",
                line={"color": colour(number, dark), "dash": DASHES[number % len(DASHES)], "width": 1.6},
                hovertemplate=f"{heads} heads, seed {result.spec.training.seed}, step %{{x}}: "
                "%{y:.0%} could go (loss %{customdata:.2f} bits)<extra></extra>",
            )
    styled(figure, dark=dark, title="Share of heads that could go", x="step", y="share of heads", height=320)
    figure.update_yaxes(range=[-0.04, 1.04], tickformat=".0%")
    return legend_below(figure)


def _lines(titles: Sequence[str]) -> list[str]:
    """Long titles on two lines, broken at their comma."""
    return [title.replace(", ", ",<br>", 1) if len(title) > 34 else title for title in titles]
