"""Gradients with respect to a gate on every head: all heads and examples in one backward pass a batch."""

from __future__ import annotations

import time

import numpy as np
import torch

from headlens.data.encode import Batch
from headlens.errors import HeadlensError
from headlens.importance.base import Raw, Request, empty
from headlens.lens import Lens
from headlens.metrics import METRICS, readout, sums
from headlens.run import Edit, LayerKey, Run

TOKENS_PER_BATCH = 1024


def need_differentiable(method: str, request: Request) -> None:
    """Raises HeadlensError where the first derivative says nothing.

    Accuracy is a step function. Drift is stationary at "all on": its first-order scores would rank rounding noise.
    """
    if not request.metric.differentiable:
        reason = "it is stationary when every head is on" if request.metric.name == "drift" else "it has no slope"
        raise HeadlensError(
            f"{method} does not apply to the metric {request.metric.name!r}: {reason}; use --method ablation"
        )


def gate_gradients(lens: Lens, request: Request) -> Raw:
    """``d NLL_x / d g`` for the summed NLL of each example ``x`` and a gate ``g = 1`` on each head's ``z``.

    Returns:
        Raw whose numerator holds the derivatives ``[examples, layer, head]`` by site (query heads, signed) and whose
        denominator holds the number of predictions of each example.
    """
    data = request.need_data()
    start = time.perf_counter()
    gradients = empty(lens, "head", len(data))
    nll, count = np.zeros(len(data)), np.zeros(len(data))
    longest = max(example.length for example in data.examples)
    batches = data.batches(request.batch_size or max(1, min(16, TOKENS_PER_BATCH // max(1, longest))))
    for done, batch in enumerate(batches):
        rows = list(batch.indices)
        found, loss, predicted = _one_batch(lens, batch)
        nll[rows], count[rows] = loss, predicted
        for (site, layer), gradient in found.items():
            heads = lens.topology.site(site).layers[layer].heads
            gradients[site][np.ix_(rows, [layer], heads)] = gradient[:, None, :]
        if request.on_progress is not None:
            request.on_progress(done + 1, len(batches))
    denominator = dict.fromkeys(gradients, count)
    return Raw(gradients, denominator, baseline=float(nll.sum() / count.sum()), seconds=time.perf_counter() - start)


def _one_batch(lens: Lens, batch: Batch) -> tuple[dict[LayerKey, np.ndarray], np.ndarray, np.ndarray]:
    """Derivatives ``[rows, heads present]`` by layer, and the NLL and predictions of each row."""
    gates = {
        (site.name, layer): torch.ones(
            len(batch.indices),
            len(shape.heads),
            device=lens.device,
            dtype=torch.float64 if lens.dtype == torch.float64 else torch.float32,
            requires_grad=True,
        )
        for site in lens.topology.sites
        for layer, shape in enumerate(site.layers)
        if shape.heads
    }
    run = Run(edits={place: Edit(gate=gate) for place, gate in gates.items()})
    with torch.enable_grad():
        values = readout(lens.forward(batch.inputs, run), lens.task)
        nll, count = sums(METRICS["loss"], values, batch)
        leaves = list(gates.values())
        # Where nothing is predicted in the whole batch, nothing depends on a gate.
        found = torch.autograd.grad(nll.sum(), leaves, allow_unused=True) if nll.requires_grad else [None] * len(leaves)
    gradients = {
        place: (torch.zeros_like(gates[place]) if gradient is None else gradient).cpu().double().numpy()
        for place, gradient in zip(gates, found, strict=True)
    }
    return gradients, nll.detach().numpy(), count.numpy()
