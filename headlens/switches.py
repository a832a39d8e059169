"""Switching heads off: from a head set and an ablation kind to edits at the input of the output projection.

Kinds: ``zero`` (z becomes 0), ``mean`` (z becomes that head's mean over the non-padding positions of the data) and
``resample`` (z comes from another example; positions beyond that example's end take its last position).
The projection's bias always stays. Sources: facts on zero, mean and resample ablation in Michel et al. 2019 (zero),
Wang et al. 2022 (mean) and Chan et al. 2022 (resample).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, cast, get_args

import numpy as np
import torch

from headlens.errors import DataError, HeadError, HeadlensError
from headlens.metrics import double
from headlens.run import Edit, LayerKey, Run

if TYPE_CHECKING:
    from torch import Tensor

    from headlens.data.encode import Batch, EncodedData
    from headlens.heads import HeadSet, Topology
    from headlens.lens import Lens

Ablation = Literal["zero", "mean", "resample"]
ABLATIONS: tuple[Ablation, ...] = get_args(Ablation)


def as_ablation(name: str) -> Ablation:
    """Checks an ablation's name; raises HeadlensError."""
    if name not in ABLATIONS:
        raise HeadlensError(f"unknown ablation {name!r}; choose one of {', '.join(ABLATIONS)}")
    return cast(Ablation, name)


def off_mask(topology: Topology, off: HeadSet) -> dict[LayerKey, Tensor]:
    """``{(site, layer): bool [1, heads present]}`` in weight order, only for layers with a head off.

    Raises:
        HeadError: the model does not have one of the heads.
    """
    missing = off - topology.heads()
    if missing:
        names = ", ".join(f"{head.site}.{head.label}" for head in missing)
        raise HeadError(f"this model has no head {names}; take labels from its topology")
    masks = {}
    for (site, layer), labels in off.by_layer().items():
        present = topology.site(site).layers[layer].heads
        masks[site, layer] = torch.tensor([[head in labels for head in present]])
    return masks


@dataclass
class Replacements:
    """What takes the place of ``z``, gathered from one pass over the data with every head on.

    Attributes:
        ablation: the kind.
        means: for ``mean``: ``[heads, d_head]`` by layer.
        z: for ``resample``: one ``[length, heads, d_head]`` for each example, by layer.
        partner: for ``resample``: whose ``z`` each example gets, ``[examples]``.
    """

    ablation: Ablation
    means: dict[LayerKey, Tensor] = field(default_factory=dict)
    z: dict[LayerKey, list[Tensor]] = field(default_factory=dict)
    partner: np.ndarray | None = None

    def value(self, key: LayerKey, batch: Batch, queries: int) -> Tensor | None:
        """Replacement for one layer: None (zero), ``[heads, d_head]`` or ``[rows, query, heads, d_head]``."""
        if self.ablation == "zero":
            return None
        if self.ablation == "mean":
            return self.means[key]
        assert self.partner is not None
        found = []
        for index in batch.indices:
            z = self.z[key][self.partner[index]]
            position = torch.arange(queries or z.shape[0], device=z.device).clamp(max=z.shape[0] - 1)
            found.append(z[position])
        return torch.stack(found)


def by_content(data: EncodedData) -> np.ndarray:
    """Positions of the examples in an order that depends on their content alone, ``[examples]``.

    Whatever is drawn at random over examples is drawn in this order, so that their order in the file changes nothing.
    """
    keys = [hashlib.sha256(example.content).digest() for example in data.examples]
    return np.array(sorted(range(len(keys)), key=lambda i: (keys[i], i)), dtype=np.int64)


def partners(data: EncodedData, seed: int) -> np.ndarray:
    """For each example another one, drawn by the seed; a rotation of a shuffle, so nobody gets itself, ``[examples]``.

    Raises:
        DataError: with fewer than two examples.
    """
    if len(data) < 2:
        raise DataError("resample ablation takes z from another example, so the data needs at least 2 examples")
    order = by_content(data)
    order = order[np.random.default_rng(seed).permutation(len(order))]
    partner = np.empty(len(order), dtype=np.int64)
    partner[order] = np.roll(order, -1)
    return partner


def gather(
    lens: Lens,
    data: EncodedData,
    ablation: Ablation,
    layers: Sequence[LayerKey],
    *,
    seed: int = 0,
    batch_size: int = 8,
    on_progress: Callable[[int, int], None] | None = None,
) -> Replacements:
    """Runs the data once with all heads on and collects what ``mean`` or ``resample`` put in place of ``z``."""
    found = Replacements(ablation)
    if ablation == "zero" or not layers:
        return found
    if ablation == "resample":
        found.partner = partners(data, seed)
    collector = ZCollector(found, len(data))
    batches = data.batches(batch_size)
    for done, batch in enumerate(batches):
        collector.batch = batch
        with torch.inference_mode():
            lens.forward(batch.inputs, Run(on_z=collector, z_of=frozenset(layers)))
        if on_progress is not None:
            on_progress(done + 1, len(batches))
    collector.finish()
    return found


class ZCollector:
    """Receives ``z`` layer by layer; sums it (mean) or keeps each example's own positions (resample)."""

    def __init__(self, into: Replacements, examples: int) -> None:
        self.into = into
        self.examples = examples
        self.batch: Batch | None = None
        self.sums: dict[LayerKey, Tensor] = {}
        self.counts: dict[LayerKey, int] = {}
        self.dtype, self.device = torch.float32, torch.device("cpu")

    def __call__(self, site: str, layer: int, z: Tensor) -> None:
        assert self.batch is not None
        key = (site, layer)
        real = self.batch.positions(site, z.shape[1])  # [rows, query]
        if self.into.ablation == "mean":
            total = double(z.masked_fill(~real[:, :, None, None], 0.0)).sum((0, 1))
            self.sums[key] = self.sums[key] + total if key in self.sums else total
            self.counts[key] = self.counts.get(key, 0) + int(real.sum())
            self.dtype, self.device = z.dtype, z.device
            return
        slots = self.into.z.setdefault(key, [z.new_empty(0)] * self.examples)
        for row, index in enumerate(self.batch.indices):
            slots[index] = z[row, real[row]].clone()

    def finish(self) -> None:
        """Turns sums into means, in the dtype that the model's ``z`` had."""
        for key, total in self.sums.items():
            self.into.means[key] = (total / self.counts[key]).to(self.device, self.dtype)


def edits_for(
    masks: Mapping[LayerKey, Tensor], replacements: Replacements, batch: Batch, device: torch.device
) -> dict[LayerKey, Edit]:
    """The edits that switch off ``masks`` in one batch."""
    edits = {}
    for key, mask in masks.items():
        value = replacements.value(key, batch, batch.query_length(key[0]))
        edits[key] = Edit(off=mask.to(device), value=value)
    return edits
