"""Skills as bars (all heads on against the switches), and along a pruning curve."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from headlens.charts.lab import DASHES, colour, legend_below
from headlens.charts.theme import Look, look, styled
from headlens.significance import Z_95

if TYPE_CHECKING:
    from headlens.probes.along import SkillCurve
    from headlens.probes.result import ProbeResult, SkillResult

SYMBOLS = ("circle", "square", "diamond", "triangle-up", "x", "cross", "triangle-down", "star", "pentagon", "hexagram")


def skill_bars(found: ProbeResult, *, dark: bool = False) -> go.Figure:
    """Right answers (%) on the left, loss of the right answer (nats) on the right; bars with 95 % intervals.

    The dashed line is guessing. Axis titles are short, since both stand side by side on a phone.
    """
    colours = look(dark)
    switched = found.off != "none"
    names = [each.skill.title for each in found.skills]
    figure = make_subplots(1, 2, shared_yaxes=True, horizontal_spacing=0.06)
    series: list[tuple[str, str, bool]] = [("all heads on", colours.before, False)]
    if switched:
        series.append(("with the switches", colours.after, True))
    for title, fill, after in series:
        pattern = (
            {"shape": "/", "fillmode": "overlay", "fgcolor": colours.text, "size": 5, "solidity": 0.12} if after else {}
        )
        marker = {"color": fill, "pattern": pattern}
        right = [each.accuracy if after else each.accuracy_before for each in found.skills]
        lost = [each.loss_mean if after else each.loss_mean_before for each in found.skills]
        common: dict[str, Any] = {"y": names, "name": title, "orientation": "h", "marker": marker, "legendgroup": title}
        figure.add_bar(
            x=[100 * share.value for share in right],
            error_x=_bars([(100 * s.value, 100 * s.low, 100 * s.high) for s in right], colours),
            hovertemplate="%{y}: %{x:.0f} % right<extra>" + title + "</extra>",
            row=1,
            col=1,
            **common,
        )
        figure.add_bar(
            x=[mean.value for mean in lost],
            error_x=_bars([(m.value, m.value - Z_95 * m.sem, m.value + Z_95 * m.sem) for m in lost], colours),
            hovertemplate="%{y}: %{x:.3g} nats<extra>" + title + "</extra>",
            showlegend=False,
            row=1,
            col=2,
            **common,
        )
    height = 120 + (44 if switched else 30) * max(1, len(names))
    styled(figure, dark=dark, title="", x="", y="", height=height)
    figure.add_vline(x=50, line={"color": colours.text, "dash": "dash", "width": 1}, row=1, col=1)  # type: ignore[arg-type]
    figure.update_xaxes(title_text="right answers (%)", range=[0, 102], row=1, col=1)
    figure.update_xaxes(title_text="loss (nats)", rangemode="tozero", row=1, col=2)
    figure.update_yaxes(autorange="reversed", showgrid=False)
    figure.update_layout(barmode="group", bargap=0.28, bargroupgap=0.06, margin={"t": 36})
    return figure


def _bars(values: list[tuple[float, float, float]], colours: Look) -> dict[str, Any]:
    above, below = ([end - value for value, _, end in values], [value - start for value, start, _ in values])
    return {
        "type": "data",
        "symmetric": False,
        "array": above,
        "arrayminus": below,
        "thickness": 1.2,
        "width": 3,
        "color": colours.text,
    }


def skill_curve(found: SkillCurve, *, dark: bool = False) -> go.Figure:
    """Right answers of every skill that the model has, against the share of heads off; exact 95 % intervals."""
    colours = look(dark)
    figure = go.Figure()
    for number, skill in enumerate(found.skills):
        pairs = found.of(skill)
        shares: list[tuple[float, float, float]] = [_share(each) for _, each in pairs]
        figure.add_scatter(
            x=[100 * point.fraction for point, _ in pairs],
            y=[value for value, _, _ in shares],
            error_y={**_bars(shares, colours), "color": colour(number, dark), "thickness": 1},
            name=skill.title,
            mode="lines+markers",
            line={"color": colour(number, dark), "dash": DASHES[number % len(DASHES)]},
            marker={"symbol": SYMBOLS[number % len(SYMBOLS)], "size": 8},
            text=[f"loss {point.rise:+.3g} nats, {each.pairs} pairs" for point, each in pairs],
            hovertemplate="%{x:.3g} % off: %{y:.0f} % right<br>%{text}<extra>" + skill.title + "</extra>",
        )
    figure.add_hline(y=50, line={"color": colours.faint, "dash": "dash", "width": 1})
    styled(figure, dark=dark, title="", x="heads off (%)", y="right answers (%), guessing: 50", height=420)
    figure.update_yaxes(range=[-3, 104])
    return legend_below(figure)


def _share(each: SkillResult) -> tuple[float, float, float]:
    found = each.accuracy
    return 100 * found.value, 100 * found.low, 100 * found.high
