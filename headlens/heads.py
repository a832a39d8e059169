"""Heads, sites and head sets: the labels by which everything else is addressed. No torch here.

A head is ``L<layer>H<head>``, both 0-based. A model has one or more *sites*, each a stack of attention layers
(``self``; or ``enc``, ``dec``, ``cross``). Labels are for life: a cut model keeps the labels of the original, so a
layer is described by the labels of the heads that are still there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from headlens.errors import HeadError

Unit = Literal["head", "kv"]

_TERM = re.compile(
    r"^(?:(?P<site>[a-z]+)\.)?L(?P<layer>\d{1,6})"
    r"(?:(?P<kind>[HG])(?P<first>\d{1,6})(?:-(?P<kind2>[HG])?(?P<last>\d{1,6}))?)?$",
    re.IGNORECASE | re.ASCII,
)
_MAX_TEXT = 200_000


@dataclass(frozen=True, order=True)
class Head:
    """One query head: ``site``, 0-based ``layer`` and 0-based ``head`` (its number in the uncut model)."""

    site: str
    layer: int
    head: int

    @property
    def label(self) -> str:
        """``L3H7``, without the site."""
        return f"L{self.layer}H{self.head}"


@dataclass(frozen=True)
class LayerShape:
    """One attention layer.

    Attributes:
        heads: labels of the query heads that are present, in weight order.
        original: number of query heads of the uncut layer.
        kv_of: for each *original* query head the KV group that it reads, ``[original]``.
        d_head: width of one head's ``z`` at the input of the output projection.
        kv_heads: number of KV heads that are present.
        causal: whether a query sees only keys at or before its own position.
    """

    heads: tuple[int, ...]
    original: int
    kv_of: tuple[int, ...]
    d_head: int
    kv_heads: int
    causal: bool

    def members(self, group: int) -> tuple[int, ...]:
        """Labels of the present query heads that share KV head ``group``."""
        return tuple(h for h in self.heads if self.kv_of[h] == group)

    @property
    def groups(self) -> tuple[int, ...]:
        """Labels of the KV groups that still have a query head."""
        return tuple(sorted({self.kv_of[h] for h in self.heads}))

    def columns(self, unit: Unit) -> tuple[int, ...]:
        """Labels of what is still there: query heads or KV groups."""
        return self.heads if unit == "head" else self.groups

    @property
    def original_groups(self) -> int:
        """Number of KV groups of the uncut layer."""
        return max(self.kv_of, default=-1) + 1


@dataclass(frozen=True)
class SiteShape:
    """One stack of attention layers, for example ``self`` or ``cross``."""

    name: str
    layers: tuple[LayerShape, ...]

    def width(self, unit: Unit = "head") -> int:
        """Number of columns of a score array of this site."""
        return max((s.original if unit == "head" else s.original_groups for s in self.layers), default=0)

    def columns(self, layer: int, unit: Unit = "head") -> tuple[int, ...]:
        """Column labels that exist in ``layer`` for the unit."""
        return self.layers[layer].columns(unit)


@dataclass(frozen=True)
class HeadSet:
    """A set of heads, usually the heads that are *off*. Iterates in (site, layer, head) order."""

    heads: frozenset[Head] = frozenset()

    @classmethod
    def of(cls, heads: Iterable[Head]) -> HeadSet:
        """Builds a set from any iterable of heads."""
        return cls(frozenset(heads))

    def __iter__(self) -> Iterator[Head]:
        return iter(sorted(self.heads))

    def __len__(self) -> int:
        return len(self.heads)

    def __contains__(self, head: object) -> bool:
        return head in self.heads

    def __or__(self, other: HeadSet) -> HeadSet:
        return HeadSet(self.heads | other.heads)

    def __sub__(self, other: HeadSet) -> HeadSet:
        return HeadSet(self.heads - other.heads)

    def by_layer(self) -> dict[tuple[str, int], tuple[int, ...]]:
        """``{(site, layer): (head labels, ascending)}``."""
        found: dict[tuple[str, int], list[int]] = {}
        for head in self:
            found.setdefault((head.site, head.layer), []).append(head.head)
        return {place: tuple(labels) for place, labels in found.items()}


@dataclass(frozen=True)
class Topology:
    """All sites of a model; turns HEADS texts into head sets and back."""

    sites: tuple[SiteShape, ...]

    def site(self, name: str) -> SiteShape:
        """The site called ``name``; raises HeadError when there is none."""
        for site in self.sites:
            if site.name == name:
                return site
        names = ", ".join(site.name for site in self.sites)
        raise HeadError(f"no site {_shorten(name)!r} in this model; it has {names}")

    @property
    def prefixed(self) -> bool:
        """Whether labels need their site's name in front (more than one site)."""
        return len(self.sites) > 1

    def heads(self) -> HeadSet:
        """Every head that is present."""
        return HeadSet.of(
            Head(site.name, layer, head)
            for site in self.sites
            for layer, shape in enumerate(site.layers)
            for head in shape.heads
        )

    def label(self, site: str, layer: int, column: int, unit: Unit = "head") -> str:
        """``L3H7``, ``cross.L3H7`` or, for the unit ``kv``, ``L3G1``."""
        prefix = f"{site}." if self.prefixed else ""
        return f"{prefix}L{layer}{'H' if unit == 'head' else 'G'}{column}"

    def members(self, site: str, layer: int, column: int, unit: Unit) -> tuple[int, ...]:
        """Query heads that the column stands for."""
        return (column,) if unit == "head" else self.site(site).layers[layer].members(column)

    def parse(self, text: str) -> HeadSet:
        """Reads HEADS: labels, ranges ``L4H0-H5``, groups ``L0G1``, layers ``L4`` (comma-separated), or ``none``.

        Raises:
            HeadError: for anything that is not a head of this model, naming the part and what exists.
        """
        if len(text) > _MAX_TEXT:
            raise HeadError(f"the list of heads has {len(text)} characters; at most {_MAX_TEXT} are read")
        parts = [part.strip() for part in text.split(",")]
        if len(parts) == 1 and parts[0].lower() in ("none", ""):
            return HeadSet()
        found: set[Head] = set()
        for part in parts:
            if not part:
                raise HeadError(f"empty label in {_shorten(text)!r}; write labels like L3H7,L4 or none")
            found.update(self._parse_term(part))
        return HeadSet.of(found)

    def _parse_term(self, part: str) -> Iterator[Head]:
        match = _TERM.match(part)
        if match is None:
            example = self.label(self.sites[0].name, 0, 0)
            raise HeadError(f"{_shorten(part)!r} is not a head; write {example}, L4H0-H5, a whole layer L4, or none")
        site = self._site_of(part, match["site"])
        layer = int(match["layer"])
        if layer >= len(site.layers):
            last = len(site.layers) - 1
            raise HeadError(f"{part!r}: this model has layers L0 to L{last}{self._in(site)}")
        shape = site.layers[layer]
        if match["kind"] is None:
            if not shape.heads:
                raise HeadError(f"{part!r} is gone: all its heads were removed when this model was cut")
            return (Head(site.name, layer, head) for head in shape.heads)
        return (Head(site.name, layer, head) for head in self._columns_of(part, match, site, layer, shape))

    def _columns_of(
        self, part: str, match: re.Match[str], site: SiteShape, layer: int, shape: LayerShape
    ) -> tuple[int, ...]:
        kind = match["kind"].upper()
        unit: Unit = "head" if kind == "H" else "kv"
        first, last = int(match["first"]), int(match["last"] or match["first"])
        if (match["kind2"] or kind).upper() != kind or last < first:
            raise HeadError(f"{part!r} is not a range; write it like L4H0-H5")
        total = shape.original if unit == "head" else shape.original_groups
        if last >= total:
            what = f"{'heads' if unit == 'head' else 'KV groups'} {kind}0 to {kind}{total - 1}"
            raise HeadError(f"{part!r}: layer {layer}{self._in(site)} has {what}")
        wanted = range(first, last + 1)
        gone = [self.label(site.name, layer, column, unit) for column in wanted if column not in shape.columns(unit)]
        if gone:
            verb, it = ("is", "it was") if len(gone) == 1 else ("are", "they were")
            raise HeadError(f"{', '.join(gone)} {verb} gone: {it} removed when this model was cut")
        return tuple(h for h in shape.heads if (h if unit == "head" else shape.kv_of[h]) in wanted)

    def _site_of(self, part: str, name: str | None) -> SiteShape:
        if name is not None:
            return self.site(name.lower())
        if self.prefixed:
            names = ", ".join(f"{s.name}.{part}" for s in self.sites)
            raise HeadError(f"{part!r} does not say which site; write one of {names}")
        return self.sites[0]

    def _in(self, site: SiteShape) -> str:
        return f" in {site.name}" if self.prefixed else ""

    def format(self, heads: HeadSet) -> str:
        """The one text for a set, which ``parse`` reads back: whole layers, runs of three or more, single labels."""
        terms: list[str] = []
        for (site, layer), labels in heads.by_layer().items():
            prefix = f"{site}." if self.prefixed else ""
            present = self.site(site).layers[layer].heads
            if len(labels) > 1 and set(labels) == set(present):
                terms.append(f"{prefix}L{layer}")
                continue
            terms.extend(_runs(f"{prefix}L{layer}", labels))
        return ",".join(terms) or "none"


def _runs(prefix: str, labels: tuple[int, ...]) -> Iterator[str]:
    """Labels of one layer, runs of three or more neighbours written as ranges."""
    run: list[int] = []
    for label in (*labels, None):
        if run and label != run[-1] + 1:
            if len(run) > 2:
                yield f"{prefix}H{run[0]}-H{run[-1]}"
            else:
                yield from (f"{prefix}H{h}" for h in run)
            run = []
        if label is not None:
            run.append(label)


def _shorten(text: str, limit: int = 60) -> str:
    return text if len(text) <= limit else text[: limit - 3] + "..."
