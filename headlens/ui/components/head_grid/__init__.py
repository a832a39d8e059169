"""The switchable, accessible map of attention heads."""

from headlens.ui.components.head_grid.component import head_grid
from headlens.ui.components.head_grid.marks import Mark, Marks
from headlens.ui.components.head_grid.messages import GridEvent, GridView
from headlens.ui.components.head_grid.payload import GridData, Mode
from headlens.ui.components.head_grid.scale import Scale, ScaleKind, format_score, robust_scale

__all__ = [
    "GridData",
    "GridEvent",
    "GridView",
    "Mark",
    "Marks",
    "Mode",
    "Scale",
    "ScaleKind",
    "format_score",
    "head_grid",
    "robust_scale",
]
