"""Which figures are compared between models. Each is the number of a claim: nothing is defined here a second time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headlens.claims.registry import find_claims

if TYPE_CHECKING:
    from headlens.claims.base import Claim


@dataclass(frozen=True)
class Measure:
    """One figure.

    Attributes:
        name: in files and on the command line.
        title: as shown.
        claim: id of the claim whose check gives the number, its interval and its verdict.
        axis: title of the axis, with the unit.
        percent: whether the number is a share, shown in percent.
    """

    name: str
    title: str
    claim: str
    axis: str
    percent: bool = False

    @property
    def check(self) -> Claim:
        """The claim."""
        return find_claims([self.claim])[0]


MEASURES: tuple[Measure, ...] = (
    Measure("removable", "Heads that can go", "share-removable", "share of the heads (%)", percent=True),
    Measure("single-head", "Layers with one head", "single-head-layers", "share of the layers (%)", percent=True),
    Measure("methods", "Methods alike", "methods-agree", "rank correlation, least alike pair of methods"),
    Measure("texts", "Texts alike", "replicates", "rank correlation, least alike pair of texts"),
    Measure("cross", "Cross- against self-attention", "cross-most-sensitive", "cost of half of the heads: difference"),
)
