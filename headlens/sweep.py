"""The exact sweep: leave one head (or KV group) out at a time, for every one, without computing any prefix twice.

The work is cut into units, one a (site, layer). For a unit the blocks below the layer are not computed again (their
output is replayed), and the layer's heads go through the rest of the model side by side in one batch. Every unit is
stored when it is done, so a kill loses at most one, and a second run takes what is there from the store.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from headlens.metrics import Metric, Sums, readout, reference, sums
from headlens.prefix import Prefix
from headlens.run import Edit, LayerKey, Run
from headlens.switches import Ablation, Replacements, ZCollector, partners

if TYPE_CHECKING:
    from torch import Tensor

    from headlens.data.encode import Batch, EncodedData
    from headlens.heads import Unit
    from headlens.lens import Lens
    from headlens.store import Store

LOGITS_BYTES = 192 * 2**20
"""Rows go through the suffix in portions whose logits stay below this; it bounds the memory of a sweep."""
TOKENS_PER_FORWARD = 1024
"""Enough tokens to keep a CPU's matrix units busy; more only costs memory."""


@dataclass(frozen=True)
class SweepSpec:
    """What is measured when one head is off."""

    metric: Metric
    ablation: Ablation = "zero"
    unit: Unit = "head"
    seed: int = 0


@dataclass(frozen=True)
class Baseline:
    """Sums with every head on: ``numerator`` and ``denominator``, float64 ``[examples]`` each."""

    numerator: np.ndarray
    denominator: np.ndarray


@dataclass(frozen=True)
class UnitResult:
    """The effects of one layer.

    Attributes:
        site, layer: which layer.
        columns: labels of the heads (or groups) in it.
        effect: rise of the metric's numerator per example when the head is off, ``[examples, columns]``; for metrics
            where higher is better the sign is turned, so positive always means that the head helps.
        cached: taken from the store.
    """

    site: str
    layer: int
    columns: tuple[int, ...]
    effect: np.ndarray
    cached: bool


class Sweep:
    """An exact sweep over a model and encoded data. ``baseline()`` first, then iterate ``units()``.

    Args:
        lens: the model.
        data: tokenised examples.
        spec: what to measure.
        batch_size: examples a batch; None picks it from the length of the examples.
        store: where finished units are kept; None keeps nothing.
        resume: take finished units from the store.
        on_progress: called with (done, total) head-example pairs before each forward pass and after each portion of
            heads; raising :class:`headlens.errors.Cancelled` (or any exception) from it stops the sweep there.
    """

    def __init__(
        self,
        lens: Lens,
        data: EncodedData,
        spec: SweepSpec,
        *,
        batch_size: int | None = None,
        store: Store | None = None,
        resume: bool = True,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> None:
        self.lens, self.data, self.spec = lens, data, spec
        self.store, self.resume, self.on_progress = store, resume, on_progress
        longest = max(example.length for example in data.examples)
        self.batches = data.batches(batch_size or max(1, min(16, TOKENS_PER_FORWARD // max(1, longest) // 2)))
        self.seconds = 0.0
        self.done = 0
        self.total = len(data) * sum(
            len(site.columns(layer, spec.unit)) for site in lens.topology.sites for layer in range(len(site.layers))
        )
        self._baseline: Baseline | None = None
        self._clean: dict[int, Tensor] = {}
        self.scored: Callable[..., Sums] = lambda *of: sums(spec.metric, *of)  # values, batch, clean
        self._partner = partners(data, spec.seed) if spec.ablation == "resample" else None

    def key(self, **what: Any) -> str:
        """Store key of one unit: everything that can change its numbers."""
        from headlens.store import unit_key

        return unit_key(
            kind="sweep",
            model=self.lens.fingerprint,
            dtype=str(self.lens.dtype),
            data=self.data.hash,
            metric=self.spec.metric.name,
            ablation=self.spec.ablation,
            seed=self.spec.seed if self.spec.ablation == "resample" else None,
            unit=self.spec.unit,
            **what,
        )

    def baseline(self) -> Baseline:
        """Sums of the metric with every head on; computed once."""
        if self._baseline is None:
            key = self.key(part="baseline") if self.store else ""
            found = self.store.get(key) if self.store and self.resume else None
            self._baseline = self._measure_baseline() if found is None else Baseline(**found)
            if self.store and found is None:
                self.store.put(key, vars(self._baseline))
        return self._baseline

    def _measure_baseline(self) -> Baseline:
        start = time.perf_counter()
        numerator, denominator = np.zeros(len(self.data)), np.zeros(len(self.data))
        for batch in self.batches:
            self._report(0)
            rows = list(batch.indices)
            with torch.inference_mode():
                values = readout(self.lens.forward(batch.inputs, Run()), self.lens.task)
                clean = reference(values, batch) if self.spec.metric.needs_reference else None
                found, denominator[rows] = self.scored(values, batch, clean)
            # A drift of all-on from itself is zero, not the rounding error of computing it.
            numerator[rows] = 0.0 if self.spec.metric.needs_reference else found
        self.seconds += time.perf_counter() - start
        return Baseline(numerator, denominator)

    def units(self) -> Iterator[UnitResult]:
        """All units, layer by layer in each stack; from the store where they are there."""
        stacks: dict[str, list[str]] = {}
        for site in self.lens.sites:
            stacks.setdefault(site.stack, []).append(site.name)
        baseline = self.baseline()
        for stack, sites in stacks.items():
            prefix = Prefix(self.lens, stack, self.batches, lambda: self._report(0))
            for layer in range(len(self.lens.topology.site(sites[0]).layers)):
                for site in sites:
                    yield self._unit(prefix, site, layer, baseline)

    def _unit(self, prefix: Prefix, site: str, layer: int, baseline: Baseline) -> UnitResult:
        columns = self.lens.topology.site(site).columns(layer, self.spec.unit)
        key = self.key(site=site, layer=layer) if self.store else ""
        found = self.store.get(key) if self.store and self.resume else None
        if found is not None and found["effect"].shape == (len(self.data), len(columns)):
            self._report(len(columns) * len(self.data))
            return UnitResult(site, layer, columns, found["effect"], cached=True)
        start = time.perf_counter()
        with torch.inference_mode():
            switched = self._measure(prefix, (site, layer), columns)
        self.seconds += time.perf_counter() - start
        before = baseline.numerator[:, None]
        effect = before - switched if self.spec.metric.higher_is_better else switched - before
        if self.store:
            self.store.put(key, {"effect": effect})
        return UnitResult(site, layer, columns, effect, cached=False)

    def _measure(self, prefix: Prefix, place: LayerKey, columns: tuple[int, ...]) -> np.ndarray:
        """The metric's numerator with each column off, ``[examples, columns]``."""
        found = np.empty((len(self.data), len(columns)))
        if not columns:
            return found
        masks = self._masks(place, columns)
        prefix.go_to(place[1])
        replacements = self._replacements(prefix, place)
        for number, batch in enumerate(self.batches):
            for part in _portions(len(columns), self._copies(batch)):
                rows = batch.repeat(len(part))
                off = masks[part].repeat_interleave(len(batch.indices), dim=0)
                value = replacements.value(place, rows, rows.query_length(place[0]))
                run = Run(edits={place: Edit(off.to(self.lens.device), value)}, replay=prefix.replay(number, len(part)))
                values = readout(self.lens.forward(rows.inputs, run), self.lens.task)
                clean = self._clean_of(prefix, number, len(part)) if self.spec.metric.needs_reference else None
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
            for number, batch in enumerate(self.batches):
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
        return max(1, min(TOKENS_PER_FORWARD // tokens, LOGITS_BYTES // logits))

    def _clean_of(self, prefix: Prefix, number: int, copies: int) -> Tensor:
        """What drift compares with, for ``copies`` copies of a batch's rows; kept while it is small."""
        clean = self._clean.get(number)
        if clean is None:
            batch = self.batches[number]
            values = readout(self.lens.forward(batch.inputs, Run(replay=prefix.replay(number))), self.lens.task)
            clean = reference(values, batch)
            if sum(t.nbytes for t in self._clean.values()) + clean.nbytes <= LOGITS_BYTES:
                self._clean[number] = clean
        return clean.repeat(copies, 1)

    def _report(self, pairs: int) -> None:
        self.done += pairs
        if self.on_progress is not None:
            self.on_progress(self.done, self.total)


def _portions(columns: int, copies: int) -> Sequence[list[int]]:
    """Column indices in portions of nearly equal size, none larger than ``copies``."""
    count = -(-columns // copies)
    return [part.tolist() for part in np.array_split(np.arange(columns), count)] if columns else []
