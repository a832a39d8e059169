"""The control: scores that know nothing."""

from __future__ import annotations

import numpy as np

from headlens.importance.base import Method, Raw, Request, empty
from headlens.lens import Lens


class RandomMethod(Method):
    """Seeded uniform scores; what any ranking has to beat."""

    name = "random"
    title = "Random (control)"
    formula = "uniform in [0, 1), drawn by the seed"
    source = "control"

    def compute(self, lens: Lens, request: Request) -> Raw:
        """See the base class."""
        rng = np.random.default_rng(request.seed)
        values = empty(lens, request.unit)
        for site in lens.topology.sites:
            for layer in range(len(site.layers)):
                columns = list(site.columns(layer, request.unit))
                values[site.name][layer, columns] = rng.random(len(columns))
        return Raw(values=values)
