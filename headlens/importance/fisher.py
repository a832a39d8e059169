"""Diagonal Fisher information of the gates."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from headlens.importance.base import Method, Raw, Request, merge_groups
from headlens.importance.gates import gate_gradients, need_differentiable
from headlens.lens import Lens


class FisherMethod(Method):
    """Mean squared derivative of an example's summed NLL with respect to the head's gate."""

    name = "fisher"
    title = "Fisher information"
    formula = "mean over examples x of (d NLL_x / d g)^2 at g = 1"
    source = "Kwon et al. 2022, A Fast Post-Training Pruning Framework for Transformers"
    needs = ("data", "labels", "gradients")
    cost = "about 2 forwards for all heads"

    def compute(self, lens: Lens, request: Request) -> Raw:
        """See the base class."""
        need_differentiable(self.name, request)
        raw = gate_gradients(lens, request)
        numerator = raw.numerator
        if request.unit == "kv":
            numerator = merge_groups(lens, numerator, np.sum)
        squared = {site: values**2 for site, values in numerator.items()}
        return replace(raw, numerator=squared, denominator=dict.fromkeys(squared, np.ones(len(request.need_data()))))
