"""Several models on the same examples: the numbers of ``evaluate``, and their paired differences between models."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from headlens.errors import ModelError
from headlens.evaluate import Measured
from headlens.metrics import METRICS, Metric, ratio, readout, reference, sums_of
from headlens.pruning.figures import perplexity
from headlens.pruning.measure import BATCH_SIZE, REFERENCE_BYTES

if TYPE_CHECKING:
    from torch import Tensor

    from headlens.data.encode import EncodedData
    from headlens.lens import Lens

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Outcome:
    """One model on some examples.

    Attributes:
        task: of the model.
        sums: ``numerator/<metric>`` and ``weight/<metric>``, float64 ``[examples]`` each; ``drift`` (from the full
            model) only where that was there.
    """

    task: str
    sums: Arrays

    def has(self, metric: str) -> bool:
        """Whether it was measured."""
        return f"numerator/{metric}" in self.sums

    def value(self, metric: str) -> tuple[float, float]:
        """The metric and its standard error over examples (NaN with fewer than two)."""
        value, sem = ratio(self.sums[f"numerator/{metric}"][:, None], self.sums[f"weight/{metric}"])
        return float(value[0]), float(sem[0])

    def against(self, before: Outcome, metric: str) -> Measured:
        """This model (``value``) against another one (``baseline``) on the same examples, with the paired error."""
        weight = self.sums[f"weight/{metric}"]
        mine, other = self.sums[f"numerator/{metric}"], before.sums[f"numerator/{metric}"]
        (baseline, baseline_sem), (value, sem) = before.value(metric), self.value(metric)
        delta_sem = float(ratio((mine - other)[:, None], weight)[1][0])
        return Measured(baseline, value, baseline_sem, sem, delta_sem, mine - other, weight)

    def perplexity(self, before: Outcome) -> Measured | None:
        """e to the loss against another model; None for models that are no language models."""
        if not self.has("loss") or self.task.endswith("classification"):
            return None
        nll = "numerator/loss"
        return perplexity(before.sums[nll], self.sums[nll], self.sums["weight/loss"])

    def describe(self) -> dict[str, Any]:
        """Value and standard error by metric, JSON-ready."""
        found = {}
        for name in METRICS:
            if self.has(name):
                value, sem = self.value(name)
                found |= {name: value, f"{name}_sem": sem}
        words = self.perplexity(self)
        return found if words is None else {**found, "perplexity": words.value, "perplexity_sem": words.sem}


class Yardstick:
    """Measures models on the same examples, and how far each is from the full model.

    Args:
        data: the examples, tokenised.
        full: the full model; None leaves the drift out.
        batch_size: examples a forward pass; it changes no number beyond rounding.

    Raises:
        ModelError: a bare encoder without a full model: it has no figure of its own.
    """

    def __init__(self, data: EncodedData, full: Lens | None = None, *, batch_size: int = BATCH_SIZE) -> None:
        self.data, self.full, self.batch_size = data, full, batch_size
        self._kept: dict[int, Tensor] = {}
        self._bytes = 0

    def measure(self, lens: Lens, on_progress: Callable[[int, int], None] | None = None) -> Outcome:
        """One model.

        Args:
            lens: the model; it reads the examples as they were tokenised.
            on_progress: called with (done, total) examples; may raise to cancel.
        """
        metrics = self._metrics(lens)
        sums = {f"{part}/{m.name}": np.zeros(len(self.data)) for m in metrics for part in ("numerator", "weight")}
        done = 0
        for number, batch in enumerate(self.data.batches(self.batch_size)):
            if on_progress is not None:
                on_progress(done, len(self.data))
            with torch.inference_mode():
                values = readout(lens.forward(batch.inputs), lens.task)
                clean = None
                if self.full is not None:
                    clean = reference(values, batch) if lens is self.full else self._reference(number)
                for name, (numerator, weight) in sums_of(metrics, values, batch, clean).items():
                    sums[f"numerator/{name}"][list(batch.indices)] = numerator.cpu().numpy()
                    sums[f"weight/{name}"][list(batch.indices)] = weight.cpu().numpy()
            done += len(batch.indices)
        if lens is self.full:
            sums["numerator/drift"][:] = 0.0  # not the rounding error of computing it
        if on_progress is not None:
            on_progress(done, len(self.data))
        return Outcome(lens.task, sums)

    def _metrics(self, lens: Lens) -> list[Metric]:
        found = [
            metric
            for metric in METRICS.values()
            if not (metric.needs_targets and lens.task == "embedding")
            and not (metric.needs_reference and self.full is None)
        ]
        if not found:
            raise ModelError(f"{lens.name} has no task head, so only its distance from the full model can be measured")
        return found

    def _reference(self, number: int) -> Tensor:
        """What the drift compares with, for one batch; kept while there is room for it."""
        if number not in self._kept:
            full = self.full
            assert full is not None
            batch = self.data.batches(self.batch_size)[number]
            clean = reference(readout(full.forward(batch.inputs), full.task), batch)
            if self._bytes + clean.nbytes > REFERENCE_BYTES:
                return clean
            self._bytes += clean.nbytes
            self._kept[number] = clean
        return self._kept[number]
