"""What the head grid is given: one :class:`GridData` a site, turned into the plain data that the browser draws."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from headlens.ui.components.head_grid.marks import Marks
from headlens.ui.components.head_grid.scale import Scale, format_error, format_score

FloatArray = NDArray[np.floating[Any]]
Mode = Literal["map", "switch"]

_TITLES = {
    "self": "Self-attention",
    "enc": "Encoder",
    "dec": "Decoder",
    "cross": "Cross-attention",
    "text": "Text",
    "vision": "Vision",
}


@dataclass(frozen=True, eq=False)
class GridData:
    """One site's heads, rows = layers, columns = heads (or KV groups).

    Attributes:
        scores: ``[layer, head]``, any unit, positive = the head helps; NaN where the score is still pending.
        site: ``enc``, ``dec``, ...; it goes in front of every label. None for a model with one site.
        unit: ``head`` for labels ``L3H7``, ``kv`` for KV groups, ``L3G1``.
        heads_per_layer: number of heads that each layer ever had, for models whose layers differ; None = all columns.
        gone: ``[layer, head]`` bool, heads that were cut out: they keep their place and label and cannot be switched.
        sem: ``[layer, head]`` standard error of ``scores``, same unit; NaN where there is none.
        roles: label -> a few words about what the head does, shown in its tooltip.
        title: heading above the grid when there are several; by default derived from ``site``.

    Raises:
        ValueError: arrays that do not fit together.
    """

    scores: FloatArray
    site: str | None = None
    unit: Literal["head", "kv"] = "head"
    heads_per_layer: Sequence[int] | None = None
    gone: NDArray[np.bool_] | None = None
    sem: FloatArray | None = None
    roles: Mapping[str, str] = field(default_factory=dict)
    title: str | None = None

    def __post_init__(self) -> None:
        shape = np.shape(self.scores)
        if len(shape) != 2 or 0 in shape:
            raise ValueError(f"scores must be a non-empty [layer, head] array, got shape {shape}")
        for name in ("gone", "sem"):
            other = getattr(self, name)
            if other is not None and np.shape(other) != shape:
                raise ValueError(f"{name} has shape {np.shape(other)}, scores have {shape}")
        counts = self.heads_per_layer
        if counts is not None and (len(counts) != shape[0] or not all(0 <= n <= shape[1] for n in counts)):
            raise ValueError(f"heads_per_layer must give {shape[0]} counts of at most {shape[1]}, got {list(counts)}")

    @property
    def name(self) -> str:
        """Accessible name of the grid: ``Heads`` or ``Heads enc``."""
        return f"Heads {self.site}" if self.site else "Heads"

    @property
    def heading(self) -> str:
        """Words above the grid."""
        return self.title or _TITLES.get(self.site or "self", self.site or "")

    def counts(self) -> list[int]:
        """Number of heads that each layer ever had."""
        return list(self.heads_per_layer or [self.scores.shape[1]] * self.scores.shape[0])

    def label(self, layer: int, head: int) -> str:
        """Label of a head: ``L3H7``, ``enc.L3H7`` or ``L0G1``."""
        letter = "H" if self.unit == "head" else "G"
        return f"{self.site + '.' if self.site else ''}L{layer}{letter}{head}"

    @cached_property
    def labels(self) -> list[list[str]]:
        """Labels ``[layer][head]`` of all heads that this site ever had, gone ones included."""
        return [[self.label(layer, head) for head in range(count)] for layer, count in enumerate(self.counts())]

    @cached_property
    def gone_labels(self) -> frozenset[str]:
        """Labels of the heads that were cut out."""
        if self.gone is None:
            return frozenset()
        rows = zip(self.labels, self.gone.tolist(), strict=True)
        return frozenset(label for labels, gone in rows for label, lost in zip(labels, gone, strict=False) if lost)


def all_labels(grids: Sequence[GridData]) -> frozenset[str]:
    """Labels of all heads drawn, gone ones included: what may be looked at."""
    return frozenset(label for grid in grids for row in grid.labels for label in row)


def switchable_labels(grids: Sequence[GridData]) -> frozenset[str]:
    """Labels of all heads that can be switched: drawn and not gone."""
    return all_labels(grids).difference(*(grid.gone_labels for grid in grids))


def ranks(grids: Sequence[GridData]) -> dict[str, int]:
    """Rank of each scored head over all sites together: 1 = highest score, equal scores share the better rank.

    Pending and gone heads have no rank.
    """
    scored = {
        label: score
        for grid in grids
        for labels, scores in zip(grid.labels, grid.scores.tolist(), strict=True)
        for label, score in zip(labels, scores, strict=False)
        if math.isfinite(score) and label not in grid.gone_labels
    }
    values = np.array(list(scored.values()), dtype=float)
    better = values.size - np.searchsorted(np.sort(values), values, side="right")
    return dict(zip(scored, (better + 1).tolist(), strict=True))


def build_payload(
    grids: Sequence[GridData],
    *,
    off: Collection[str],
    ack: int,
    scale: Scale,
    mode: Mode = "map",
    height: int | None = None,
    pinned: str | None = None,
    pin_ack: int = 0,
    ranked: bool = True,
    marks: Marks | None = None,
) -> dict[str, Any]:
    """Everything the browser needs, as JSON-ready values.

    Args:
        grids: one a site, in drawing order.
        off: labels of the heads that are off; labels that are not drawn or gone are left out.
        ack: sequence number of the newest browser message that ``off`` contains.
        scale: how scores become colours.
        mode: ``map`` (colours lead) or ``switch`` (on and off lead).
        height: wanted height of the tallest grid in pixels; None = square-ish cells.
        pinned: label whose card is pinned, or None.
        pin_ack: sequence number of the newest ``pinned`` message that the page has seen.
        ranked: whether tooltips tell ranks; not where the ranking is not to be trusted.
        marks: letters and colours that take the place of the scores' colours, or None.

    Raises:
        ValueError: no grid, two grids of the same name, or a negative ``ack``.
    """
    names = [grid.name for grid in grids]
    if not names or len(set(names)) != len(names):
        raise ValueError(f"a head grid needs at least one site and different sites, got {names}")
    if ack < 0:
        raise ValueError(f"ack counts messages, got {ack}")
    rank = ranks(grids) if ranked else {}
    known = switchable_labels(grids)
    return {
        "grids": [_grid_payload(grid, rank) for grid in grids],
        "ranked": len(rank),
        "off": sorted(label for label in off if label in known),
        "ack": ack,
        "pinned": pinned if pinned in all_labels(grids) else None,
        "pinAck": pin_ack,
        "scale": _scale_payload(scale),
        "mode": mode,
        "height": height,
        "marks": None if marks is None else marks.payload(),
    }


def _grid_payload(grid: GridData, rank: Mapping[str, int]) -> dict[str, Any]:
    """One site: rows of texts, errors and ranks, each ``[layer][head]`` with None where there is none."""
    heads = [len(row) for row in grid.labels]
    rows = [row[:count] for row, count in zip(grid.scores.tolist(), heads, strict=True)]
    text = [[format_score(score) if math.isfinite(score) else None for score in row] for row in rows]
    return {
        "name": grid.name,
        "title": grid.heading,
        "prefix": f"{grid.site}." if grid.site else "",
        "letter": "H" if grid.unit == "head" else "G",
        "columns": grid.scores.shape[1],
        "heads": heads,
        "gone": sorted(grid.gone_labels),
        "text": text,
        "sem": None if grid.sem is None else _error_rows(grid.sem, text),
        "rank": [[rank.get(label) for label in row] for row in grid.labels],
        "roles": {label: words for label, words in grid.roles.items() if words},
    }


def _error_rows(sem: FloatArray, text: list[list[str | None]]) -> list[list[str | None]]:
    return [
        [None if score is None or not math.isfinite(error) else format_error(error, score) for error, score in pairs]
        for pairs in (zip(errors, scores, strict=False) for errors, scores in zip(sem.tolist(), text, strict=True))
    ]


def _scale_payload(scale: Scale) -> dict[str, Any]:
    return {
        "kind": scale.kind,
        "low": scale.low,
        "high": scale.high,
        "lowText": ("≤ " if scale.clipped_low else "") + format_score(scale.low),
        "highText": ("≥ " if scale.clipped_high else "") + format_score(scale.high),
        "unit": scale.unit,
    }
