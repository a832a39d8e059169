"""The map of all heads: where each square goes, how dark it is, and what is gone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from headlens.heads import Head
from headlens.report.figures import WIDTH, Tick

if TYPE_CHECKING:
    from headlens.heads import HeadSet, Topology
    from headlens.scores import HeadScores


@dataclass(frozen=True)
class Cell:
    """One head (or group) of a map.

    Attributes:
        x, y: of its upper left corner.
        share: 0 to 1, how large its score is among all (by rank); None without a score.
        gone: whether it was taken out.
        text: label, score, and what became of it.
    """

    x: float
    y: float
    share: float | None
    gone: bool
    text: str


@dataclass(frozen=True)
class HeadMap:
    """All heads of a site, layer by layer from above.

    Attributes:
        title, description: for those who cannot see it.
        cells: placed.
        layers, columns: (position, label).
        size: side of a cell.
        width, height: of the paper.
    """

    title: str
    description: str
    cells: tuple[Cell, ...]
    layers: tuple[Tick, ...]
    columns: tuple[Tick, ...]
    size: float
    width: float
    height: float


def head_maps(scores: HeadScores | None, topology: Topology, off: HeadSet) -> list[HeadMap]:
    """A map for each site of the full model: colour by the rank of the score, a cross on what is gone."""
    unit = "head" if scores is None else scores.unit
    share = {} if scores is None else _ranks(scores)
    found = []
    for site in topology.sites:
        width = max(1, site.width(unit))
        size = max(9.0, min(26.0, (WIDTH - 60) / width))
        cells, counts = [], []
        for layer in range(len(site.layers)):
            gone_here = 0
            for column in site.columns(layer, unit):
                members = topology.members(site.name, layer, column, unit)
                gone = all(Head(site.name, layer, head) in off for head in members)
                gone_here += gone
                label = topology.label(site.name, layer, column, unit)
                value = "" if scores is None else f", score {scores.values[site.name][layer, column]:.3g}"
                state = "taken out" if gone else "kept"
                place = (46 + column * size, 22 + layer * size)
                cells.append(Cell(*place, share.get((site.name, layer, column)), gone, f"{label}{value}, {state}"))
            if gone_here:
                counts.append(f"layer {layer}: {gone_here} of {len(site.columns(layer, unit))}")
        name = f"Heads, site {site.name}" if topology.prefixed else "Heads"
        told = "Taken out: " + ("; ".join(counts) or "none") + "."
        layers = tuple(Tick(22 + (n + 0.5) * size, f"L{n}") for n in range(len(site.layers)))
        letter = "H" if unit == "head" else "G"
        columns = tuple(Tick(46 + (n + 0.5) * size, f"{letter}{n}") for n in range(width))
        every = max(1, math.ceil((8.5 * len(columns[-1].text) + 4) / size))
        found.append(
            HeadMap(
                name,
                told,
                tuple(cells),
                layers[:: max(1, math.ceil(13 / size))],
                columns[::every],
                size,
                52 + width * size,
                28 + len(site.layers) * size,
            )
        )
    return found


def _ranks(scores: HeadScores) -> dict[tuple[str, int, int], float]:
    """Rank of every score from 0 (smallest) to 1 (largest)."""
    columns, values = scores.columns(), scores.flat()
    order = np.argsort(np.argsort(values, kind="stable"), kind="stable")
    top = max(1, len(columns) - 1)
    return {column: float(rank) / top for column, rank in zip(columns, order, strict=True)}
