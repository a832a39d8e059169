"""What a row costs, told beforehand from the catalogue alone: a guess, and how it is spread over the measures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from headlens.claims.costs import CURVE, OPERATIONS, SWEEP, shared
from headlens.claims.examples import LEAST_TOKENS, MOST_TOKENS, WORK

if TYPE_CHECKING:
    from headlens.models.catalogue import Entry

PASS_SECONDS = 0.02
"""What a pass costs besides its arithmetic: about that of batches of a very small model on one processor core."""
UNKNOWN_PARAMETERS, UNKNOWN_HEADS = 30_000_000, 72
"""Taken for a model that the catalogue does not know."""
SETS, HALVES = 7, 2
"""Texts that are compared: built-in sets, or the halves of a zoo model's own."""


def guess(entry: Entry | None, tokens: int | None = None) -> Mapping[str, float]:
    """Seconds by measure: right to a factor of two or so on two free processor cores."""
    parameters = (entry.parameters if entry is not None else None) or UNKNOWN_PARAMETERS
    stacks = 3 if entry is not None and entry.task == "seq2seq" else 1
    layers = stacks * ((entry.layers if entry is not None else None) or 6)
    heads = layers * ((entry.heads if entry is not None else None) or UNKNOWN_HEADS // 6)
    used = tokens or min(MOST_TOKENS, max(LEAST_TOKENS, WORK / parameters))
    one = 2 * parameters * used / OPERATIONS + PASS_SECONDS
    sweep = shared("ablation", heads)
    bare = entry is not None and entry.task == "embedding"
    sets = HALVES if entry is not None and entry.source == "zoo" else SETS
    passes = {
        "removable": (sweep if bare else shared("order", heads)) + CURVE,
        "single-head": SWEEP * heads + 2 * layers,
        "methods": 0.0 if bare else sweep,
        "texts": sets * (sweep if bare else shared("order", heads)),
        "cross": 4.0 if stacks > 1 else 0.0,
    }
    return {name: count * one for name, count in passes.items()}
