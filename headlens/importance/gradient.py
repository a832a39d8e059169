"""Michel et al.'s gradient score, with a gate for each example."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from headlens.importance.base import Method, Raw, Request, merge_groups
from headlens.importance.gates import gate_gradients, need_differentiable
from headlens.lens import Lens


class GradientMethod(Method):
    """First-order effect of switching a head off; the absolute value is taken for each example, so examples of opposite
    sign do not cancel. ``signed`` gives the first-order estimate of the ablation score instead."""

    name = "gradient"
    title = "Gradient (Michel et al.)"
    formula = "sum over examples x of |d NLL_x / d g| / predictions; signed: - sum_x d NLL_x / d g / predictions"
    source = "Michel, Levy, Neubig 2019, equation 2; Molchanov et al. 2017"
    needs = ("data", "labels", "gradients")
    cost = "about 2 forwards for all heads"

    def compute(self, lens: Lens, request: Request) -> Raw:
        """See the base class."""
        need_differentiable(self.name, request)
        raw = gate_gradients(lens, request)
        numerator = raw.numerator
        if request.unit == "kv":  # one gate on the whole group: the derivative is the sum over its members
            numerator = merge_groups(lens, numerator, np.sum)
        numerator = {site: 0.0 - values if request.signed else np.abs(values) for site, values in numerator.items()}
        return replace(raw, numerator=numerator)
