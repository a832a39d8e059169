"""Which heads of a small-English model can go, and the model without them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any

import torch

from headlens.lab.language import Language, untrained
from headlens.lab.language_measure import Stories, excess, gap

if TYPE_CHECKING:
    from torch import Tensor

_PROJECTION = re.compile(r"layers\.(\d+)\.self_attn\.([qkvo])_proj\.weight$")
Removal = tuple[int, int]
"""(layer, head)."""


def greedy(model: Any, spec: Language, at_least: int, text: Stories) -> list[tuple[Removal, float]]:
    """Removes one head after another where it hurts least, down to ``at_least`` heads in every layer.

    Returns:
        Each (layer, head) in the order in which they go, with the gap in nats a token after it.
    """
    left = {layer: list(range(spec.heads)) for layer in range(spec.layers)}
    gone: list[tuple[Removal, float]] = []
    while candidates := [(la, h) for la, heads in left.items() if len(heads) > at_least for h in heads]:
        found = []
        for candidate in candidates:
            off = _by_layer([*(each for each, _ in gone), candidate])
            found.append(gap(excess(model, text, off, spec.d_head), text).value)
        best = min(range(len(candidates)), key=found.__getitem__)
        layer, head = candidates[best]
        left[layer].remove(head)
        gone.append((candidates[best], found[best]))
    return gone


def _by_layer(heads: Sequence[Removal]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for layer, head in heads:
        found.setdefault(layer, []).append(head)
    return found


def kept_heads(spec: Language, gone: Sequence[Removal]) -> dict[int, tuple[int, ...]]:
    """Heads left in each layer."""
    off = _by_layer(gone)
    return {layer: tuple(h for h in range(spec.heads) if h not in off.get(layer, ())) for layer in range(spec.layers)}


def random_heads(spec: Language, size: int) -> dict[int, tuple[int, ...]]:
    """``size`` seeded random heads in each layer."""
    rng = Random(f"lab|random heads|{spec.seed}")
    return {layer: tuple(sorted(rng.sample(range(spec.heads), size))) for layer in range(spec.layers)}


def cut(model: Any, spec: Language, keep: Mapping[int, Sequence[int]]) -> tuple[Any, Language]:
    """The model with the heads ``keep`` alone (as many in every layer), and what it is; needs ``mha``."""
    sizes = {len(heads) for heads in keep.values()}
    if spec.sharing != "mha" or len(sizes) != 1:
        raise ValueError("only models with a key and value head for each query head are cut, alike in every layer")
    small = replace(spec, heads=sizes.pop())
    weights = {name: _slice(name, weight, keep, spec.d_head) for name, weight in model.state_dict().items()}
    fresh = untrained(small)
    fresh.load_state_dict(weights)
    return fresh.eval(), small


def _slice(name: str, weight: Tensor, keep: Mapping[int, Sequence[int]], d_head: int) -> Tensor:
    match = _PROJECTION.search(name)
    if match is None:
        return weight
    rows = torch.tensor([head * d_head + place for head in keep[int(match[1])] for place in range(d_head)])
    return weight[:, rows] if match[2] == "o" else weight[rows]


def prunable_within(model: Any, spec: Language, share: float, text: Stories, held_out: Stories) -> float:
    """Share of query heads that greedy pruning takes before the held-out *loss* rises by more than ``share`` of it."""
    gone = [each for each, _ in greedy(model, spec, 0, text)]
    tokens = float(held_out.mask[:, 1:].sum())
    entropy = float(held_out.entropy.sum()) / tokens
    base, taken = gap(excess(model, held_out), held_out).value + entropy, 0
    for count in range(1, len(gone) + 1):
        off = _by_layer(gone[:count])
        if gap(excess(model, held_out, off, spec.d_head), held_out).value + entropy > (1 + share) * base:
            break
        taken = count
    return taken / len(gone)
