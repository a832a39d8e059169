"""What is measured: per-example sums, so that every metric is a ratio of sums with an honest standard error.

A metric gives for each example a numerator and a denominator; its value is the sum of numerators over the sum of
denominators (token-weighted where tokens are predicted).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
import torch

from headlens.data.encode import IGNORE
from headlens.errors import HeadlensError

if TYPE_CHECKING:
    from torch import Tensor

    from headlens.data.encode import Batch

_CHUNK_BYTES = 8 * 2**20
"""Logits are scored in portions that fit a CPU's cache: three times faster than all at once, and little memory."""


@dataclass(frozen=True)
class Metric:
    """One metric.

    Attributes:
        name: as on the command line.
        title: as shown.
        unit: of its value.
        higher_is_better: decides the sign of importance: positive always means that the head helps.
        needs_targets: whether something must be predicted (false: works for bare encoders too).
        needs_reference: whether it compares with the same model with every head on.
        differentiable: whether its first derivative at all-on carries information.
    """

    name: str
    title: str
    unit: str
    higher_is_better: bool
    needs_targets: bool
    needs_reference: bool
    differentiable: bool


METRICS: Mapping[str, Metric] = MappingProxyType(
    {
        metric.name: metric
        for metric in (
            Metric("loss", "Loss", "nats per prediction", False, True, False, True),
            Metric("accuracy", "Accuracy", "share of predictions", True, True, False, False),
            Metric("drift", "Drift", "nats (KL) or 1 - cosine", False, False, True, False),
        )
    }
)


def metric_for(name: str | None, task: str) -> Metric:
    """The metric called ``name``, or the task's default (``drift`` for bare encoders, else ``loss``).

    Raises:
        HeadlensError: unknown metric, or one that this task has no targets for.
    """
    name = name or ("drift" if task == "embedding" else "loss")
    if name not in METRICS:
        raise HeadlensError(f"unknown metric {name!r}; choose one of {', '.join(METRICS)}")
    metric = METRICS[name]
    if metric.needs_targets and task == "embedding":
        raise HeadlensError(f"metric {name!r} needs predictions and this model has no task head; use --metric drift")
    return metric


def readout(output: object, task: str) -> Tensor:
    """What is scored: logits ``[rows, position, classes]``, or hidden states ``[rows, position, d_model]``."""
    if task == "embedding":
        return output.last_hidden_state  # type: ignore[attr-defined]
    logits: Tensor = output.logits  # type: ignore[attr-defined]
    return logits[:, None, :] if logits.dim() == 2 else logits


def reference(values: Tensor, batch: Batch) -> Tensor:
    """What ``drift`` compares with: log-probabilities at targets ``[n, classes]`` or embeddings ``[rows, d]``."""
    if batch.targets is None:
        return pooled(values, batch)
    return at_least_float32(values[batch.targets != IGNORE]).log_softmax(-1)


def at_least_float32(values: Tensor) -> Tensor:
    """Half precision is widened before any logarithm; float32 and float64 stay as they are."""
    return values if values.dtype in (torch.float32, torch.float64) else values.float()


def double(values: Tensor) -> Tensor:
    """``values`` as float64, on the CPU where the device has no such numbers (MPS)."""
    return values.cpu().double() if values.device.type == "mps" else values.double()


def pooled(hidden: Tensor, batch: Batch) -> Tensor:
    """Mean over the non-padding positions, float64 ``[rows, d_model]``."""
    hidden = double(hidden)
    real = batch.positions("self", hidden.shape[1]).to(hidden.device)[:, :, None]
    # Not a product with the mask: a padded position may hold NaN, which 0 would not silence.
    return hidden.masked_fill(~real, 0.0).sum(1) / real.sum(1)


Sums = tuple["Tensor", "Tensor"]
"""Numerator and denominator of a metric for each row, float64 ``[rows]`` each, on the CPU."""


def sums(metric: Metric, values: Tensor, batch: Batch, clean: Tensor | None = None) -> Sums:
    """Numerator and denominator of one metric; see :func:`sums_of`."""
    return sums_of([metric], values, batch, clean)[metric.name]


def sums_of(metrics: Sequence[Metric], values: Tensor, batch: Batch, clean: Tensor | None = None) -> dict[str, Sums]:
    """Numerator and denominator of several metrics, by name, in one pass over the logits.

    Args:
        metrics: what to measure.
        values: from :func:`readout`.
        batch: the batch that gave them.
        clean: from :func:`reference` of the same rows with every head on; needed by ``drift``.
    """
    if batch.targets is None:
        assert clean is not None
        drift = 1 - torch.nn.functional.cosine_similarity(pooled(values, batch), clean, dim=-1).cpu()
        return {metric.name: (drift, torch.ones_like(drift)) for metric in metrics}
    rows, position = (batch.targets != IGNORE).nonzero(as_tuple=True)
    target = batch.targets[rows, position]
    row_of = rows.cpu()
    count = torch.bincount(row_of, minlength=len(batch.indices)).double()
    found = {metric.name: torch.zeros(len(batch.indices), dtype=torch.float64) for metric in metrics}
    step = max(1, _CHUNK_BYTES // (4 * values.shape[-1]))
    # For a gradient they are picked out once: every separate pick would add a full-size array to the backward pass.
    picked = values[rows, position].split(step) if values.requires_grad else None
    for number, start in enumerate(range(0, len(rows), step)):
        part = slice(start, start + step)
        logits = at_least_float32(values[rows[part], position[part]] if picked is None else picked[number])
        for name, each in _per_token(metrics, logits, target[part], None if clean is None else clean[part]).items():
            found[name] = found[name].index_add(0, row_of[part], each.cpu().double())
    return {name: (total, count) for name, total in found.items()}


def _per_token(metrics: Sequence[Metric], logits: Tensor, target: Tensor, clean: Tensor | None) -> dict[str, Tensor]:
    """Each metric at each scored position, ``[n]``."""
    found = {}
    names = {metric.name for metric in metrics}
    if "accuracy" in names:
        found["accuracy"] = (logits.argmax(-1) == target).float()
    if names - {"accuracy"}:
        log_probabilities = logits.log_softmax(-1)
        if "loss" in names:
            found["loss"] = torch.nn.functional.nll_loss(log_probabilities, target, reduction="none")
        if "drift" in names:
            assert clean is not None
            found["drift"] = (clean.exp() * (clean - log_probabilities)).sum(-1)
    return found


def ratio(numerator: np.ndarray, denominator: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Ratio of sums over axis 0 and its standard error over examples, by linearisation.

    ``sem^2 = n / (n - 1) * sum_x (a_x - r b_x)^2 / (sum_x b_x)^2`` (Cochran, Sampling Techniques, section 6.4).

    Args:
        numerator: ``[examples, ...]``.
        denominator: ``[examples]``.

    Returns:
        Two arrays of the shape of one example's numerator; the error is NaN with fewer than two examples.
    """
    total = denominator.sum()
    value = numerator.sum(0) / total
    n = int((denominator > 0).sum())
    if n < 2:
        return value, np.full_like(value, np.nan, dtype=np.float64)
    weight = denominator.reshape(-1, *[1] * (numerator.ndim - 1))
    residual = numerator - value * weight
    return value, np.sqrt(n / (n - 1) * (residual**2).sum(0)) / total
