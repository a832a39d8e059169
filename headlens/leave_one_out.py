"""Measuring what the metric does when one head of a layer is off: for some batches, with the prefix computed once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

from headlens.batching import at_once
from headlens.metrics import Sums, readout, reference, sums
from headlens.prefix import Prefix
from headlens.run import Edit, LayerKey, Run
from headlens.sweep_parts import Part, SweepSpec, portions
from headlens.switches import Replacements, ZCollector, partners

if TYPE_CHECKING:
    from torch import Tensor

    from headlens.data.encode import Batch, EncodedData
    from headlens.lens import Lens

LOGITS_BYTES = 192 * 2**20
"""Rows go through the suffix in portions whose logits stay below this; it bounds the memory of a sweep."""
TOKENS_PER_FORWARD = 1024
"""Enough tokens to keep a CPU's matrix units busy; more only costs memory."""


class LeaveOneOut:
    """The computing half of a sweep; see :class:`headlens.sweep.Sweep`, which keeps, counts and reports.

    Args:
        lens, data, spec, batch_size: see there.
    """

    def __init__(self, lens: Lens, data: EncodedData, spec: SweepSpec, batch_size: int | None = None) -> None:
        self.lens, self.data, self.spec = lens, data, spec
        longest = max(example.length for example in data.examples)
        self.batches = data.batches(batch_size or max(1, min(16, TOKENS_PER_FORWARD // max(1, longest) // 2)))
        self.scored: Callable[..., Sums] = lambda *of: sums(spec.metric, *of)  # values, batch, clean
        self._partner = partners(data, spec.seed) if spec.ablation == "resample" else None
        self._prefixes: dict[tuple[int, ...], Prefix] = {}
        self._clean: dict[tuple[int, ...], Tensor] = {}

    def _report(self, pairs: int) -> None:
        """Called before each forward pass with 0, and with the head-example pairs of each portion that is done."""

    def measure(self, unit: Part) -> dict[str, np.ndarray]:
        """Sums of the examples of a part, in the order of :meth:`rows`: ``numerator`` (with each column of the layer
        off, ``[rows, columns]``; of the baseline ``[rows]``) and, of the baseline, ``denominator``."""
        with torch.inference_mode():
            if not unit.site:
                return self._measure_baseline(unit)
            return {"numerator": self._measure(unit, self.columns(unit))[self.rows(unit)]}

    def rows(self, unit: Part) -> list[int]:
        """Examples that a part is about, ascending."""
        return sorted(i for number in self._numbers(unit) for i in self.batches[number].indices)

    def _numbers(self, unit: Part) -> Sequence[int]:
        return unit.batches or range(len(self.batches))

    def columns(self, unit: Part) -> tuple[int, ...]:
        """Columns of the layer; none for the baseline."""
        return self.lens.topology.site(unit.site).columns(unit.layer, self.spec.unit) if unit.site else ()

    def _measure_baseline(self, unit: Part) -> dict[str, np.ndarray]:
        numerator, denominator = np.zeros(len(self.data)), np.zeros(len(self.data))
        for number in self._numbers(unit):
            batch = self.batches[number]
            self._report(0)
            rows = list(batch.indices)
            values = readout(self.lens.forward(batch.inputs, Run()), self.lens.task)
            clean = reference(values, batch) if self.spec.metric.needs_reference else None
            found, denominator[rows] = self.scored(values, batch, clean)
            # A drift of all-on from itself is zero, not the rounding error of computing it.
            numerator[rows] = 0.0 if self.spec.metric.needs_reference else found
        rows = self.rows(unit)
        return {"numerator": numerator[rows], "denominator": denominator[rows]}

    def _prefix(self, unit: Part) -> Prefix:
        """The blocks below the layer, for the batches of the part (for all where ``z`` is taken from all)."""
        stack = next(site.stack for site in self.lens.sites if site.name == unit.site)
        numbers = tuple(self._numbers(unit) if self.spec.ablation == "zero" else range(len(self.batches)))
        prefix = self._prefixes.get(numbers)
        if prefix is None or prefix.stack != stack or prefix.done > unit.layer:
            batches = [self.batches[number] for number in numbers]
            prefix = self._prefixes[numbers] = Prefix(self.lens, stack, batches, lambda: self._report(0))
        prefix.go_to(unit.layer)
        return prefix

    def _measure(self, unit: Part, columns: tuple[int, ...]) -> np.ndarray:
        """The metric's numerator with each column off, ``[examples, columns]``; NaN where the part has no example."""
        found = np.full((len(self.data), len(columns)), np.nan)
        if not columns:
            return found
        place = (unit.site, unit.layer)
        masks = self._masks(place, columns)
        prefix = self._prefix(unit)
        replacements = self._replacements(prefix, place)
        for number in self._numbers(unit):
            batch = self.batches[number]
            at = next(i for i, held in enumerate(prefix.batches) if held is batch)
            for part in portions(len(columns), self._copies(batch)):
                rows = batch.repeat(len(part))
                off = masks[part].repeat_interleave(len(batch.indices), dim=0)
                value = replacements.value(place, rows, rows.query_length(place[0]))
                run = Run(edits={place: Edit(off.to(self.lens.device), value)}, replay=prefix.replay(at, len(part)))
                values = readout(self.lens.forward(rows.inputs, run), self.lens.task)
                clean = self._clean_of(prefix, at, len(part)) if self.spec.metric.needs_reference else None
                numerator, _ = self.scored(values, rows, clean)
                found[np.ix_(batch.indices, part)] = numerator.view(len(part), -1).T.numpy()
                del values
                self._report(len(part) * len(batch.indices))
        return found

    def _replacements(self, prefix: Prefix, place: LayerKey) -> Replacements:
        """What takes the place of ``z`` at ``place``, where the prefix has arrived."""
        found = Replacements(self.spec.ablation, partner=self._partner)
        if found.ablation != "zero":
            collector = ZCollector(found, len(self.data))
            for number, batch in enumerate(prefix.batches):
                collector.batch = batch
                prefix.through(number, place[1], Run(on_z=collector, z_of=frozenset([place])))
            collector.finish()
        return found

    def _masks(self, place: LayerKey, columns: tuple[int, ...]) -> Tensor:
        """Which heads are off for each column, bool ``[columns, heads present]``."""
        site, layer = place
        present = self.lens.topology.site(site).layers[layer].heads
        members = [self.lens.topology.members(site, layer, column, self.spec.unit) for column in columns]
        return torch.tensor([[head in chosen for head in present] for chosen in members])

    def _copies(self, batch: Batch) -> int:
        """How many heads go through the suffix at once for this batch."""
        rows = len(batch.indices)
        tokens = rows * max((v.shape[1] for name, v in batch.inputs.items() if name.endswith("input_ids")), default=64)
        logits = 4 * max(1, self.lens.vocabulary) * tokens
        return max(1, min(at_once(TOKENS_PER_FORWARD) // tokens, at_once(LOGITS_BYTES) // logits))

    def _clean_of(self, prefix: Prefix, number: int, copies: int) -> Tensor:
        """What drift compares with, for ``copies`` copies of a batch's rows; kept while it is small."""
        batch = prefix.batches[number]
        clean = self._clean.get(batch.indices)
        if clean is None:
            values = readout(self.lens.forward(batch.inputs, Run(replay=prefix.replay(number))), self.lens.task)
            clean = reference(values, batch)
            if sum(t.nbytes for t in self._clean.values()) + clean.nbytes <= LOGITS_BYTES:
                self._clean[batch.indices] = clean
        return clean.repeat(copies, 1)
