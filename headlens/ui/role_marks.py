"""Roles as marks on the map of heads: a letter and a colour for each head, and what they add up to in words."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from headlens.heads import Head
from headlens.roles.registry import DETECTORS
from headlens.ui.components.head_grid.marks import Mark, Marks

if TYPE_CHECKING:
    from headlens.heads import Topology, Unit
    from headlens.roles import RoleScores

LETTERS = {
    "previous-token": "P",
    "next-token": "N",
    "self": "O",
    "first-token": "F",
    "duplicate-token": "D",
    "induction": "I",
    "prefix-matching": "M",
    "separator": "S",
    "punctuation": "U",
    "syntactic": "Y",
    "rare-word": "R",
    "retrieval": "V",
    "broad": "B",
    "positional": "A",
}
"""What stands in a cell; each role has its own, so that nothing hangs on the colour."""
NONE, SEVERAL = Mark("none", "·", "no role"), Mark("several", "+", "several roles")


def marks(found: RoleScores, topology: Topology, unit: Unit) -> Marks:
    """A mark for every head (or group: its heads' role if they share one), and the legend with counts."""
    labels = found.labels()
    by_label: dict[str, Mark] = {}
    for site in topology.sites:
        for layer in range(len(site.layers)):
            for column in site.columns(layer, unit):
                members = topology.members(site.name, layer, column, unit)
                roles = {labels.get(Head(site.name, layer, member)) for member in members}
                by_label[topology.label(site.name, layer, column, unit)] = _mark(roles)
    return Marks(by_label)


def _mark(roles: set[str | None]) -> Mark:
    if roles == {None}:
        return NONE
    named = roles - {None}
    if len(named) > 1:
        return SEVERAL
    role = named.pop()
    assert role is not None
    return Mark(role, LETTERS.get(role, "?"), DETECTORS[role].title.lower(), list(LETTERS).index(role))


def marks_sentence(found: RoleScores) -> str:
    """How many heads have which role, in one plain sentence."""
    labels = found.labels()
    counts = Counter(role for role in labels.values() if role is not None)
    total, without = len(labels), sum(role is None for role in labels.values())
    if not counts:
        return f"None of the {total} heads passes the threshold of a role."
    listed = ", ".join(f"{count} {DETECTORS[role].title.lower()}" for role, count in counts.most_common())
    return (
        f"{total - without} of {total} heads have a role, each called by the one that suits it best: {listed}; "
        f"{without} pass no threshold."
    )
