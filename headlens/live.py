"""The live set: what a toggle recomputes, at the cost of the part of the model behind the switch.

One clean pass keeps the output of every block. A toggle replays the blocks below the lowest layer with a switch and
computes only what comes after. The numbers are those of :func:`headlens.evaluate.evaluate` on the same data.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree

from headlens.evaluate import Evaluation, clean_sums, comparison
from headlens.metrics import METRICS, Metric, Sums, readout, reference, sums_of
from headlens.run import LayerKey, Replay, Run
from headlens.switches import Ablation, Replacements, edits_for, gather, off_mask

if TYPE_CHECKING:
    from torch import Tensor

    from headlens.data.encode import EncodedData
    from headlens.heads import HeadSet
    from headlens.lens import Lens

BATCH_SIZE = 8


class LiveEvaluator:
    """Evaluates head sets on a small data set, again and again. Safe to use from several threads.

    Args:
        lens: the model.
        data: a small set; block outputs and log-probabilities of all of it are kept (see ``nbytes``).
    """

    def __init__(self, lens: Lens, data: EncodedData) -> None:
        self.lens, self.data = lens, data
        self.batches = data.batches(BATCH_SIZE)
        self.metrics = [m for m in METRICS.values() if not (m.needs_targets and lens.task == "embedding")]
        self._blocks: list[dict[tuple[str, int], Any]] = []
        self._clean: list[Tensor] = []
        self._sums: list[dict[str, Sums]] = []
        self._replacements: dict[tuple[Ablation, int], Replacements] = {}
        self._lock = threading.Lock()
        with torch.inference_mode():
            for batch in self.batches:
                self._first_pass(batch)

    def _first_pass(self, batch: Any) -> None:
        blocks, output = record_blocks(self.lens, batch.inputs)
        values = readout(output, self.lens.task)
        clean = reference(values, batch)
        self._blocks.append(blocks)
        self._clean.append(clean)
        self._sums.append(clean_sums(self.metrics, values, batch, clean))

    @property
    def nbytes(self) -> int:
        """Bytes of everything that is kept; what several blocks hand on (T5's position bias) counts once."""
        kept = [self._blocks, self._clean, *(vars(found) for found in self._replacements.values())]
        leaves = [leaf for leaf in _pytree.tree_leaves(kept) if isinstance(leaf, torch.Tensor)]
        return sum({leaf.untyped_storage().data_ptr(): leaf.untyped_storage().nbytes() for leaf in leaves}.values())

    def evaluate(self, off: HeadSet, *, metric: Metric, ablation: Ablation = "zero", seed: int = 0) -> Evaluation:
        """Every metric with all heads on and with ``off`` off; see :func:`headlens.evaluate.evaluate`."""
        masks = off_mask(self.lens.topology, off)
        after = self._sums
        if masks:
            replacements = self._replacements_for(ablation, seed)
            after = [self._switched(number, masks, replacements) for number in range(len(self.batches))]
        return comparison(
            self.lens, self.data, off, metric.name, ablation, [b.indices for b in self.batches], self._sums, after
        )

    def _switched(
        self, number: int, masks: dict[tuple[str, int], Tensor], replacements: Replacements
    ) -> dict[str, Sums]:
        batch, clean = self.batches[number], self._clean[number]
        edits = edits_for(masks, replacements, batch, self.lens.device)
        with torch.inference_mode():
            run = Run(edits=edits, replay=replay_below(self.lens, self._blocks[number], masks))
            values = readout(self.lens.forward(batch.inputs, run), self.lens.task)
            return sums_of(self.metrics, values, batch, clean)

    def means(self) -> Mapping[LayerKey, Tensor]:
        """Each head's mean ``z`` over this data, ``[heads, d_head]`` by layer: what ``mean`` ablation puts in."""
        return self._replacements_for("mean", 0).means

    def _replacements_for(self, ablation: Ablation, seed: int) -> Replacements:
        """Means or partners' ``z`` of all layers, gathered once."""
        key = (ablation, seed)
        with self._lock:
            if key not in self._replacements:
                layers = [(site.name, layer) for site in self.lens.sites for layer in range(len(site.layers))]
                self._replacements[key] = gather(self.lens, self.data, ablation, layers, seed=seed)
            return self._replacements[key]


def record_blocks(lens: Lens, inputs: Mapping[str, Tensor]) -> tuple[dict[tuple[str, int], Any], Any]:
    """One forward pass with every head on: the output of every block by (stack, index), and the model's output."""
    blocks: dict[tuple[str, int], Any] = {}
    run = Run(on_block=lambda stack, index, output: blocks.__setitem__((stack, index), output))
    return blocks, lens.forward(inputs, run)


def replay_below(lens: Lens, blocks: Mapping[tuple[str, int], Any], places: Iterable[LayerKey]) -> Replay:
    """Replays every block that no switch at ``places`` can reach: below the lowest one of its stack.

    A switch in an encoder reaches every block of the decoder.
    """
    stack_of = {site.name: site.stack for site in lens.sites}
    lowest = {site.stack: len(site.layers) for site in lens.sites}
    for site, layer in places:
        lowest[stack_of[site]] = min(lowest[stack_of[site]], layer)
    encoder = next((site for site in lens.sites if site.stack == "enc"), None)
    if encoder is not None and lowest["enc"] < len(encoder.layers):
        lowest["dec"] = 0
    return Replay({stack: (first, blocks[stack, first - 1]) for stack, first in lowest.items() if first})
