"""What the browser sends, checked: nothing it says is trusted before it has passed here."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal

_MAX_SEQUENCE = 2**53
"""JavaScript counts exactly up to here."""


@dataclass(frozen=True)
class GridEvent:
    """One thing the user did on the grid.

    Attributes:
        kind: ``mask`` = heads were switched, ``active`` = the look moved to a head, ``pinned`` = a card was
            pinned or let go.
        off: with ``mask``, labels of all heads that are off now; store it together with ``ack``.
        ack: with ``mask``, sequence number to hand back to ``head_grid``.
        label: with ``active`` and ``pinned``, the head, or None.
    """

    kind: Literal["mask", "active", "pinned"]
    off: frozenset[str] = frozenset()
    ack: int = 0
    label: str | None = None


@dataclass(frozen=True)
class GridView:
    """What the user looks at: labels, or None."""

    active: str | None = None
    pinned: str | None = None


def parse_mask(message: object, known: Collection[str]) -> GridEvent | None:
    """Read ``{"off": [label, ...], "seq": n}``.

    Args:
        message: whatever arrived.
        known: labels that may be switched; others are left out.

    Returns:
        A ``mask`` event, or None if the message is not of that form.
    """
    if not isinstance(message, Mapping):
        return None
    off, seq = message.get("off"), parse_sequence(message)
    if not seq or not isinstance(off, list) or not all(isinstance(label, str) for label in off):
        return None
    return GridEvent("mask", off=frozenset(off).intersection(known), ack=seq)


def parse_sequence(message: object) -> int:
    """Sequence number of a message, 0 if it has none."""
    seq = message.get("seq") if isinstance(message, Mapping) else None
    return seq if isinstance(seq, int) and not isinstance(seq, bool) and 0 < seq < _MAX_SEQUENCE else 0


def parse_label(message: object, known: Collection[str]) -> str | None:
    """Read ``{"label": label}``; anything else, or a label that is not drawn, is None."""
    label = message.get("label") if isinstance(message, Mapping) else None
    return label if isinstance(label, str) and label in known else None
