"""Marks on the cells of a head grid: a letter and a colour for what a head is, beside its score."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Mark:
    """One kind of mark.

    Attributes:
        name: tells kinds apart.
        letter: one character, drawn in the cell.
        title: in the legend and in the cell's description.
        colour: index of the palette; -1 for none.
    """

    name: str
    letter: str
    title: str
    colour: int = -1


@dataclass(frozen=True)
class Marks:
    """Marks by label. While a grid has marks they are its colours; names and scores stay as they are."""

    by_label: Mapping[str, Mark]

    def payload(self) -> dict[str, Any]:
        """JSON-ready: the mark of each label, and the legend, most frequent first, those without colour last."""
        counts = Counter(self.by_label.values())
        kinds = sorted(counts, key=lambda mark: (mark.colour < 0, -counts[mark], mark.name))
        place = {mark: index for index, mark in enumerate(kinds)}
        legend = [
            {"letter": mark.letter, "title": mark.title, "colour": mark.colour, "count": counts[mark]} for mark in kinds
        ]
        return {"of": {label: place[mark] for label, mark in self.by_label.items()}, "legend": legend}
