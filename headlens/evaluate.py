"""One head set against all heads on: loss, perplexity, accuracy, drift and KL, each with its error."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from headlens.heads import HeadSet
from headlens.metrics import METRICS, Metric, Sums, ratio, readout, reference, sums_of
from headlens.run import Run
from headlens.switches import Ablation, edits_for, gather, off_mask

if TYPE_CHECKING:
    from torch import Tensor

    from headlens.data.encode import Batch, EncodedData
    from headlens.lens import Lens


@dataclass(frozen=True)
class Measured:
    """One metric with every head on and with some off.

    Attributes:
        baseline, value: ratio of sums; ``delta`` is value - baseline.
        baseline_sem, sem: standard errors over examples.
        delta_sem: standard error of the *paired* difference.
        changes, weights: what the difference is made of, float64 ``[examples]`` each: ``delta`` is
            ``changes.sum() / weights.sum()``. Kept so that two switches can be compared example by example.
    """

    baseline: float
    value: float
    baseline_sem: float
    sem: float
    delta_sem: float
    changes: np.ndarray | None = field(default=None, compare=False, repr=False)
    weights: np.ndarray | None = field(default=None, compare=False, repr=False)

    @property
    def delta(self) -> float:
        """Change by the switch."""
        return self.value - self.baseline


@dataclass(frozen=True)
class Evaluation:
    """What switching ``off`` does on one data set.

    Attributes:
        metric: the metric that was asked for.
        task: the model's task.
        off: HEADS that are off.
        ablation: what took the place of their ``z``.
        measured: by metric name; ``drift`` has baseline 0.
        examples, tokens: how much was scored (tokens: predictions).
    """

    metric: str
    task: str
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
        words = None if self.task.endswith("classification") else loss  # perplexity is a measure of language models
        return {
            "metric": self.metric,
            "baseline": _finite(self.main.baseline),
            "value": _finite(self.main.value),
            "delta": _finite(self.main.delta),
            "delta_sem": _finite(self.main.delta_sem),
            "examples": self.examples,
            "tokens": self.tokens,
            "perplexity_baseline": None if words is None else _exp(words.baseline),
            "perplexity": None if words is None else _exp(words.value),
            "accuracy_baseline": None if accuracy is None else _finite(accuracy.baseline),
            "accuracy": None if accuracy is None else _finite(accuracy.value),
            "kl": None if drift is None or loss is None else _finite(drift.value),
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
    before: list[dict[str, Sums]] = []
    after: list[dict[str, Sums]] = []
    batches = data.batches(batch_size)
    for done, batch in enumerate(batches):
        with torch.inference_mode():
            values = readout(lens.forward(batch.inputs, Run()), lens.task)
            clean = reference(values, batch)
            before.append(clean_sums(wanted, values, batch, clean))
            found = before[-1]
            if masks:
                edits = edits_for(masks, replacements, batch, lens.device)
                values = readout(lens.forward(batch.inputs, Run(edits=edits)), lens.task)
                found = sums_of(wanted, values, batch, clean)
            after.append(found)
        if on_progress is not None:
            on_progress(done + 1, len(batches))
    return comparison(lens, data, off, metric.name, ablation, [batch.indices for batch in batches], before, after)


def clean_sums(metrics: Sequence[Metric], values: Tensor, batch: Batch, clean: Tensor) -> dict[str, Sums]:
    """Sums with every head on; the drift of all-on from itself is zero, not the rounding error of computing it."""
    found = sums_of(metrics, values, batch, clean)
    for metric in metrics:
        if metric.needs_reference:
            found[metric.name] = (torch.zeros_like(found[metric.name][0]), found[metric.name][1])
    return found


def comparison(
    lens: Lens,
    data: EncodedData,
    off: HeadSet,
    metric: str,
    ablation: str,
    rows: Sequence[tuple[int, ...]],
    before: Sequence[Mapping[str, Sums]],
    after: Sequence[Mapping[str, Sums]],
) -> Evaluation:
    """Puts the sums of all batches together; ``rows`` says which examples each batch holds."""
    measured = {}
    for name in before[0]:
        old, new, weight = (np.zeros((len(data), 1)) for _ in range(3))
        for indices, one, other in zip(rows, before, after, strict=True):
            for array, tensor in ((old, one[name][0]), (new, other[name][0]), (weight, one[name][1])):
                array[list(indices), 0] = tensor.cpu().numpy()
        measured[name] = _measured(old, new, weight[:, 0])
    return Evaluation(metric, lens.task, lens.topology.format(off), ablation, measured, len(data), data.tokens)


def _measured(before: np.ndarray, after: np.ndarray, weight: np.ndarray) -> Measured:
    (baseline, baseline_sem), (value, sem) = ratio(before, weight), ratio(after, weight)
    _, delta_sem = ratio(after - before, weight)
    figures = (float(x[0]) for x in (baseline, value, baseline_sem, sem, delta_sem))
    return Measured(*figures, changes=(after - before)[:, 0], weights=weight)
