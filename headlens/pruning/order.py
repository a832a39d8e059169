"""In which order heads go: least important first, from any scores.

Equal scores go in (site, layer, head) order, so the same scores always give the same heads.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from headlens.errors import HeadlensError
from headlens.heads import Head, HeadSet

if TYPE_CHECKING:
    from headlens.heads import Topology, Unit
    from headlens.scores import HeadScores

Column = tuple[str, int, int]
"""(site, layer, column): a query head, or a KV group where the unit is ``kv``."""


def order(
    scores: HeadScores, *, floor: int = 0, sites: Sequence[str] | None = None, off: HeadSet | None = None
) -> tuple[Head, ...]:
    """Heads that may go, least important first; the members of a KV group stand side by side.

    Args:
        scores: larger means keep.
        floor: in every layer so many heads (groups, for the unit ``kv``) stay: those with the highest scores.
        sites: only heads of these sites; None takes all.
        off: heads that are off already; they come up no more, but their layers keep ``floor`` of the others.

    Raises:
        HeadlensError: a score that is no finite number, a negative floor, a site that the model does not have.
    """
    columns = removable(scores, floor=floor, sites=sites, off=off)
    return tuple(head for column in columns for head in heads_of(scores.topology, column, scores.unit))


def lowest(
    scores: HeadScores,
    count: int,
    floor: int = 0,
    *,
    sites: Sequence[str] | None = None,
    off: HeadSet | None = None,
) -> HeadSet:
    """The ``count`` least important heads (KV groups, for the unit ``kv``: then all their members).

    Args:
        scores, floor, sites, off: see :func:`order`; ``off`` is not in the result.
        count: how many heads or groups; use :func:`count_for` for a fraction.

    Raises:
        HeadlensError: see :func:`order`; also when fewer than ``count`` may go.
    """
    columns = removable(scores, floor=floor, sites=sites, off=off)
    if not 0 <= count <= len(columns):
        what, most = "heads" if scores.unit == "head" else "KV groups", len(columns)
        share = math.floor(1000 * most / len(scores.columns())) / 1000  # never more than there are
        raise HeadlensError(
            f"{count} {what} cannot be switched off: a floor of {floor} in each layer leaves {most} to choose from, so "
            f"a fraction of at most {share:g}"
        )
    return off_set(scores.topology, columns[:count], scores.unit)


def removable(
    scores: HeadScores, *, floor: int = 0, sites: Sequence[str] | None = None, off: HeadSet | None = None
) -> tuple[Column, ...]:
    """Like :func:`order`, as columns of the score arrays."""
    values = scores.flat()
    if not np.isfinite(values).all():
        raise HeadlensError(f"some {scores.method} scores are not finite numbers, so there is no order")
    columns = scores.columns()
    ranked = [columns[i] for i in np.argsort(values, kind="stable")]
    chosen = set(columns_of(scores.topology, scores.unit, sites))
    gone = off or HeadSet()
    on = [c for c in ranked if c in chosen and not all(h in gone for h in heads_of(scores.topology, c, scores.unit))]
    return with_floor(on, floor)


def with_floor(columns: Sequence[Column], floor: int) -> tuple[Column, ...]:
    """The columns, in their order, without the last ``floor`` of every layer."""
    if floor < 0:
        raise HeadlensError(f"a floor of {floor} heads a layer makes no sense; give 0 or more")
    kept: dict[tuple[str, int], int] = {}
    found = []
    for column in reversed(columns):
        place = column[:2]
        if kept.get(place, 0) < floor:
            kept[place] = kept.get(place, 0) + 1
        else:
            found.append(column)
    return tuple(reversed(found))


def columns_of(topology: Topology, unit: Unit = "head", sites: Sequence[str] | None = None) -> tuple[Column, ...]:
    """All columns that are present, of all or some sites, in (site, layer, column) order; raises HeadError."""
    wanted = None if sites is None else {topology.site(name).name for name in sites}
    return tuple(
        (site.name, layer, column)
        for site in topology.sites
        if wanted is None or site.name in wanted
        for layer in range(len(site.layers))
        for column in site.columns(layer, unit)
    )


def heads_of(topology: Topology, column: Column, unit: Unit) -> tuple[Head, ...]:
    """The query heads that a column stands for."""
    site, layer, label = column
    return tuple(Head(site, layer, head) for head in topology.members(site, layer, label, unit))


def off_set(topology: Topology, columns: Sequence[Column], unit: Unit) -> HeadSet:
    """The columns as a set of query heads."""
    return HeadSet.of(head for column in columns for head in heads_of(topology, column, unit))


def count_for(fraction: float, total: int) -> int:
    """How many of ``total`` a fraction is: the nearest whole number, halves up.

    Raises:
        HeadlensError: a fraction outside 0 to 1.
    """
    if not 0 <= fraction <= 1:
        raise HeadlensError(f"a fraction of {fraction:g} of the heads makes no sense; give 0 to 1")
    return int(fraction * total + 0.5 + 1e-9)  # 0.15 * 10 is 1.5 less a rounding error
