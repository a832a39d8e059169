"""One head set against all heads on: loss, perplexity, accuracy, drift and KL, each with its error."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from headlens.heads import HeadSet
from headlens.metrics import METRICS, Metric, ratio, readout, reference, sums
from headlens.run import Run
from headlens.switches import Ablation, edits_for, gather, off_mask

if TYPE_CHECKING:
    from headlens.data.encode import EncodedData
    from headlens.lens import Lens


@dataclass(frozen=True)
class Measured:
    """One metric with every head on and with some off.

    Attributes:
        baseline, value: ratio of sums; ``delta`` is value - baseline.
        baseline_sem, sem: standard errors over examples.
        delta_sem: standard error of the *paired* difference.
    """

    baseline: float
    value: float
    baseline_sem: float
    sem: float
    delta_sem: float

    @property
    def delta(self) -> float:
        """Change by the switch."""
        return self.value - self.baseline


@dataclass(frozen=True)
class Evaluation:
    """What switching ``off`` does on one data set.

    Attributes:
        metric: the metric that was asked for.
        off: HEADS that are off.
        measured: by metric name; ``drift`` has baseline 0.
        examples, tokens: how much was scored (tokens: predictions).
    """

    metric: str
    off: str
    ablation: str
    measured: dict[str, Measured]
    examples: int
    tokens: int

    @property
    def main(self) -> Measured:
        """The metric that was asked for."""
        return self.measured[self.metric]

    def to_json(self) -> dict[str, Any]:
        """The contract's object; null where a figure does not apply."""
        loss, accuracy, drift = (self.measured.get(name) for name in ("loss", "accuracy", "drift"))
        return {
            "metric": self.metric,
            "baseline": self.main.baseline,
            "value": self.main.value,
            "delta": self.main.delta,
            "delta_sem": _finite(self.main.delta_sem),
            "examples": self.examples,
            "tokens": self.tokens,
            "perplexity_baseline": None if loss is None else _exp(loss.baseline),
            "perplexity": None if loss is None else _exp(loss.value),
            "accuracy_baseline": None if accuracy is None else accuracy.baseline,
            "accuracy": None if accuracy is None else accuracy.value,
            "kl": None if drift is None or loss is None else drift.value,
            "off": self.off,
            "ablation": self.ablation,
        }


def _exp(value: float) -> float | None:
    return math.exp(value) if value < 700 else None


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def evaluate(
    lens: Lens,
    data: EncodedData,
    off: HeadSet,
    *,
    metric: Metric,
    ablation: Ablation = "zero",
    seed: int = 0,
    batch_size: int = 8,
    on_progress: Callable[[int, int], None] | None = None,
) -> Evaluation:
    """Measures every metric that applies, with all heads on and with ``off`` off, on the same examples.

    Args:
        lens: the model.
        data: tokenised examples.
        off: heads that are off.
        metric: which one is reported first.
        ablation: what replaces ``z``; ``mean`` and ``resample`` take it from the same data with every head on.
        seed: draws the partner examples of ``resample``.
        batch_size: examples a forward pass; it does not change the numbers.
        on_progress: called with (done, total) batches.
    """
    wanted = [m for m in METRICS.values() if not (m.needs_targets and lens.task == "embedding")]
    masks = off_mask(lens.topology, off)
    replacements = gather(lens, data, ablation, list(masks), seed=seed, batch_size=batch_size)
    before = {m.name: np.zeros((len(data), 1)) for m in wanted}
    after = {m.name: np.zeros((len(data), 1)) for m in wanted}
    weight = {m.name: np.zeros(len(data)) for m in wanted}
    batches = data.batches(batch_size)
    for done, batch in enumerate(batches):
        rows = list(batch.indices)
        with torch.inference_mode():
            clean_values = readout(lens.forward(batch.inputs, Run()), lens.task)
            clean = reference(clean_values, batch)
            values = clean_values
            if masks:
                edits = edits_for(masks, replacements, batch, lens.device)
                values = readout(lens.forward(batch.inputs, Run(edits=edits)), lens.task)
            for m in wanted:
                compared = clean if m.needs_reference else None
                old, count = sums(m, clean_values, batch, compared)
                new = sums(m, values, batch, compared)[0] if masks else old
                # A drift of all-on from itself is zero, not the rounding error of computing it.
                before[m.name][rows, 0] = 0.0 if m.needs_reference else old.cpu().numpy()
                after[m.name][rows, 0] = before[m.name][rows, 0] if not masks else new.cpu().numpy()
                weight[m.name][rows] = count.cpu().numpy()
        if on_progress is not None:
            on_progress(done + 1, len(batches))
    measured = {m.name: _measured(before[m.name], after[m.name], weight[m.name]) for m in wanted}
    return Evaluation(metric.name, lens.topology.format(off), ablation, measured, len(data), data.tokens)


def _measured(before: np.ndarray, after: np.ndarray, weight: np.ndarray) -> Measured:
    (baseline, baseline_sem), (value, sem) = ratio(before, weight), ratio(after, weight)
    _, delta_sem = ratio(after - before, weight)
    return Measured(*(float(x[0]) for x in (baseline, value, baseline_sem, sem, delta_sem)))
