"""Scores from the weights alone."""

from __future__ import annotations

import time

import numpy as np
import torch

from headlens.errors import HeadlensError
from headlens.importance.base import Method, Raw, Request, empty, merge_groups
from headlens.lens import Lens
from headlens.metrics import at_least_float32
from headlens.models.families.base import Place, output_weight


def _root_sum_square(values: np.ndarray, axis: int) -> np.ndarray:
    return np.sqrt((values**2).sum(axis))


class MagnitudeMethod(Method):
    """Size of the head's slice of the output projection."""

    name = "magnitude"
    title = "Weight magnitude (W_O)"
    formula = "Frobenius norm of W_O^h, the head's slice of the output projection"
    source = "standard, no single origin"

    def compute(self, lens: Lens, request: Request) -> Raw:
        """See the base class."""
        start = time.perf_counter()
        values = empty(lens, "head")
        for site in lens.sites:
            for layer, place in enumerate(site.layers):
                heads = lens.topology.site(site.name).layers[layer].heads
                if heads:
                    values[site.name][layer, list(heads)] = self.norms(lens, place, heads)
        if request.unit == "kv":  # the norm of a group's slices side by side
            values = merge_groups(lens, values, _root_sum_square)
        return Raw(values=values, seconds=time.perf_counter() - start)

    def norms(self, lens: Lens, place: Place, heads: tuple[int, ...]) -> np.ndarray:  # noqa: ARG002
        """Norm for each present head, ``[heads]``."""
        return torch.linalg.matrix_norm(at_least_float32(output_weight(place))).cpu().numpy()


class MagnitudeOVMethod(MagnitudeMethod):
    """Size of the map from what a head reads to what it writes; unlike W_O alone it does not change when a factor is
    moved between W_V and W_O."""

    name = "magnitude-ov"
    title = "Weight magnitude (W_V W_O)"
    formula = "Frobenius norm of W_V^h W_O^h, h reading the value head of its group"
    source = "standard, no single origin; OV circuit: Elhage et al. 2021"

    def norms(self, lens: Lens, place: Place, heads: tuple[int, ...]) -> np.ndarray:  # noqa: ARG002 - the place says it
        """See the base class."""
        value = lens.adapter.value_weight(place)
        if value is None:
            raise HeadlensError(
                f"{self.name} does not apply: {lens.family} has no value matrix; use --method magnitude"
            )
        value = at_least_float32(value)
        output = at_least_float32(output_weight(place)).to(value.device)  # [heads, d_head, d_model]
        reads = torch.tensor(place.reads)
        # ||A B||_F^2 = tr(A^T A B B^T): d_head x d_head products instead of d_in x d_model ones.
        left = value.transpose(1, 2) @ value
        right = output @ output.transpose(1, 2)
        return (left[reads] * right).sum((1, 2)).clamp(min=0).sqrt().cpu().numpy()
