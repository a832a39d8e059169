"""Many head sets measured on one data set: the numbers of ``evaluate``, with the clean pass shared by all of them.

The work is cut into units, one head set on one portion of the examples. A unit costs one forward pass of its examples,
is stored when it is done and taken from the store the next time; the current engine (:mod:`headlens.engine`) does them
here or on a cluster. A portion is as many examples as fit what the drift
compares with (the clean model's log-probabilities) into memory; small sets are one portion.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

from headlens.engine.base import current
from headlens.evaluate import clean_sums, comparison
from headlens.heads import HeadSet
from headlens.metrics import METRICS, Sums, readout, reference, sums_of
from headlens.pruning.figures import SetResult, perplexity
from headlens.pruning.set_units import SetJob, rows_of
from headlens.run import Run
from headlens.store import unit_key
from headlens.switches import Ablation, Replacements, edits_for, gather, off_mask

if TYPE_CHECKING:
    from torch import Tensor

    from headlens.data.encode import Batch, EncodedData
    from headlens.lens import Lens
    from headlens.store import Store

REFERENCE_BYTES = 512 * 2**20
"""Log-probabilities of the clean model that are kept at a time."""
BATCH_SIZE = 8
"""That of ``evaluate``, so that both give the same bits."""
Arrays = Mapping[str, np.ndarray]
"""``numerator/<metric>`` and ``weight/<metric>``, float64 ``[examples of the portion]``."""


class SetMeasure:
    """Measures head sets; see the module.

    Args:
        lens: the model.
        data: tokenised examples.
        metric: which metric is called the main one.
        ablation: what replaces ``z``; ``mean`` and ``resample`` take it from the same data with every head on.
        seed: draws the partner examples of ``resample``.
        batch_size: examples a forward pass.
        store: where finished units are kept; None keeps nothing.
        resume: take finished units from the store.
        on_progress: called with (done, total) pairs of set and example before and after each forward pass; may raise
            to cancel.

    Attributes:
        seconds: time of the computation so far.
        passes: passes over all examples so far (a half for half the examples).
        cached: units taken from the store.
    """

    def __init__(
        self,
        lens: Lens,
        data: EncodedData,
        *,
        metric: str,
        ablation: Ablation = "zero",
        seed: int = 0,
        batch_size: int | None = None,
        store: Store | None = None,
        resume: bool = True,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> None:
        self.lens, self.data, self.metric, self.seed = lens, data, metric, seed
        self.ablation: Ablation = ablation
        self.batch_size = batch_size or BATCH_SIZE
        self.store, self.resume, self.on_progress = store, resume, on_progress
        self.metrics = [m for m in METRICS.values() if not (m.needs_targets and lens.task == "embedding")]
        self.seconds, self.passes, self.cached = 0.0, 0.0, 0
        self.done, self.total = 0, 0
        self._replacements: Replacements | None = None

    def measure(
        self, sets: Iterable[HeadSet], on_result: Callable[[SetResult], None] | None = None
    ) -> dict[HeadSet, SetResult]:
        """Every set (each once), and the empty one; ``on_result`` gets each as soon as it is complete."""
        found: dict[HeadSet, SetResult] = {}
        clean: Arrays = {}
        for off, arrays in self._each(sets):
            clean = clean or arrays
            found[off] = self._result(off, clean, arrays)
            if on_result is not None:
                on_result(found[off])
        return found

    def sums(self, sets: Iterable[HeadSet]) -> dict[HeadSet, Arrays]:
        """The sums behind the figures of every set and of the empty one, in the order of the data."""
        return dict(self._each(sets))

    def _each(self, sets: Iterable[HeadSet]) -> Iterator[tuple[HeadSet, Arrays]]:
        """Sets with their sums, the empty one first, as they are complete."""
        wanted = list(dict.fromkeys([HeadSet(), *sets]))
        job = SetJob(self, self.portions(), wanted)
        self.done, self.total = 0, len(wanted) * len(self.data)
        missing = dict.fromkeys(wanted, len(self.data))
        collected: dict[HeadSet, dict[str, np.ndarray]] = {off: {} for off in wanted}
        complete: list[HeadSet] = []
        for unit, arrays in current().run(job, job.units()):
            rows = job.rows(unit)
            for name, values in arrays.items():
                collected[unit.off].setdefault(name, np.zeros(len(self.data)))[rows] = values
            missing[unit.off] -= len(rows)
            complete += [] if missing[unit.off] else [unit.off]
            if not missing[wanted[0]]:  # every other set is told in comparison with it
                yield from ((off, collected[off]) for off in sorted(complete, key=lambda off: off != wanted[0]))
                complete.clear()

    def key(self, off: HeadSet, rows: Sequence[int]) -> str:
        """Store key of one unit: everything that can change its numbers by more than rounding."""
        zero = self.ablation == "zero" or not len(off)
        return unit_key(
            kind="head set",
            model=self.lens.fingerprint,
            dtype=str(self.lens.dtype),
            data=self.data.hash,
            rows=list(rows),
            off=self.lens.topology.format(off),
            ablation="zero" if zero else self.ablation,
            seed=self.seed if self.ablation == "resample" and not zero else None,
        )

    def report(self, pairs: int) -> None:
        """``pairs`` more pairs of set and example are done."""
        self.done += pairs
        if self.on_progress is not None:
            self.on_progress(self.done, self.total)

    def replacements(self, sets: Sequence[HeadSet]) -> Replacements:
        """What takes the place of ``z`` in any of the sets; gathered once."""
        if self._replacements is None:
            layers = list(dict.fromkeys(place for off in sets for place in off.by_layer()))
            # Between its passes nothing is done yet, but the work can be cancelled.
            self._replacements = gather(
                self.lens,
                self.data,
                self.ablation,
                layers,
                seed=self.seed,
                batch_size=self.batch_size,
                on_progress=lambda *_: self.report(0),
            )
            self.passes += 0 if self.ablation == "zero" else 1
        return self._replacements

    def portions(self) -> list[list[Batch]]:
        """The batches in portions whose references fit into memory."""
        classes = 0 if self.lens.task.endswith("classification") else self.lens.vocabulary
        portions: list[list[Batch]] = []
        used = 0
        for batch in self.data.batches(self.batch_size):
            size = 4 * classes * sum(self.data.examples[i].predicted for i in batch.indices)
            if not portions or used + size > REFERENCE_BYTES:
                portions.append([])
                used = 0
            portions[-1].append(batch)
            used += size
        return portions

    def _result(self, off: HeadSet, before: Arrays, after: Arrays) -> SetResult:
        rows = [tuple(range(len(self.data)))]
        old, new = ([self._torch(arrays)] for arrays in (before, after))
        evaluation = comparison(self.lens, self.data, off, self.metric, self.ablation, rows, old, new)
        if "loss" not in evaluation.measured or self.lens.task.endswith("classification"):
            return SetResult(off, evaluation)
        first, second = (arrays["numerator/loss"] for arrays in (before, after))
        return SetResult(off, evaluation, perplexity(first, second, before["weight/loss"]))

    def _torch(self, arrays: Arrays) -> dict[str, Sums]:
        parts = ("numerator", "weight")
        return {
            metric.name: tuple(torch.from_numpy(arrays[f"{part}/{metric.name}"]) for part in parts)  # type: ignore[misc]
            for metric in self.metrics
        }


class Portion:
    """Some of the examples: their clean pass, and every set on them."""

    def __init__(self, owner: SetMeasure, batches: Sequence[Batch], sets: Sequence[HeadSet]) -> None:
        self.owner, self.batches, self.sets = owner, batches, sets
        self.rows = rows_of(batches)
        self.place = {row: i for i, row in enumerate(self.rows)}
        self._clean: tuple[list[Tensor], Arrays] | None = None

    def arrays(self, off: HeadSet) -> Arrays:
        """Sums of one set."""
        return self._pass(off, self.clean(counted=False)[0]) if len(off) else self.clean(counted=True)[1]

    def clean(self, *, counted: bool) -> tuple[list[Tensor], Arrays]:
        """What drift compares with for each batch, and the sums with every head on."""
        if self._clean is None:
            references: list[Tensor] = []
            self._clean = (references, self._pass(HeadSet(), references, counted=counted))
        return self._clean

    def _pass(self, off: HeadSet, references: list[Tensor], *, counted: bool = True) -> Arrays:
        """One forward pass of all batches; with every head on it fills ``references``."""
        owner, lens = self.owner, self.owner.lens
        replacements = owner.replacements(self.sets) if len(off) else None
        masks = off_mask(lens.topology, off)
        found = {
            f"{part}/{metric.name}": np.zeros(len(self.rows))
            for metric in owner.metrics
            for part in ("numerator", "weight")
        }
        start = time.perf_counter()
        for number, batch in enumerate(self.batches):
            owner.report(0)
            with torch.inference_mode():
                edits = {} if replacements is None else edits_for(masks, replacements, batch, lens.device)
                values = readout(lens.forward(batch.inputs, Run(edits=edits)), lens.task)
                if replacements is None:
                    references.append(reference(values, batch))
                    sums = clean_sums(owner.metrics, values, batch, references[-1])
                else:
                    sums = sums_of(owner.metrics, values, batch, references[number])
            del values
            at = [self.place[i] for i in batch.indices]
            for name, (numerator, weight) in sums.items():
                found[f"numerator/{name}"][at] = numerator.cpu().numpy()
                found[f"weight/{name}"][at] = weight.cpu().numpy()
            owner.report(len(batch.indices) if counted else 0)
        owner.seconds += time.perf_counter() - start
        owner.passes += len(self.rows) / len(owner.data)
        return found
