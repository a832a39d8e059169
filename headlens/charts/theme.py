"""Colours and layout that all figures share; chosen so that people with colour-blindness can tell them apart."""

from __future__ import annotations

from dataclasses import dataclass

import plotly.graph_objects as go


@dataclass(frozen=True)
class Look:
    """Colours of one theme."""

    text: str
    grid: str
    helps: str
    harms: str
    before: str
    after: str
    faint: str


LIGHT = Look("#1b2230", "#d9dee7", "#2456a6", "#c2570c", "#6b7686", "#c2570c", "#9aa5b5")
DARK = Look("#e8ecf3", "#38414f", "#7fb0ff", "#ffab66", "#9aa5b5", "#ffab66", "#66707f")


def look(dark: bool) -> Look:
    """The colours for dark or light."""
    return DARK if dark else LIGHT


def styled(figure: go.Figure, *, dark: bool, title: str, x: str, y: str, height: int = 300) -> go.Figure:
    """Title, axis titles (with units), transparent background and thin grid lines."""
    colours = look(dark)
    figure.update_layout(
        title={"text": title, "font": {"size": 15}},
        height=height,
        margin={"l": 8, "r": 8, "t": 44, "b": 8},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"color": colours.text, "size": 13},
        legend={"orientation": "h", "yanchor": "bottom", "y": 1.0, "x": 0},
        hoverlabel={"font": {"size": 13}},
    )
    ink = {"color": colours.text}  # Streamlit's own grey on white is at 3.7 to 1
    axis = {"gridcolor": colours.grid, "zerolinecolor": colours.faint, "automargin": True}
    axis |= {"tickfont": ink, "title_font": ink}
    figure.update_xaxes(title_text=x, **axis)
    figure.update_yaxes(title_text=y, **axis)
    return figure
