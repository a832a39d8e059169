"""How much a head writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from headlens.importance.base import Request
from headlens.importance.watch import WatchingMethod, by_group
from headlens.metrics import at_least_float32
from headlens.models.families.base import output_weight

if TYPE_CHECKING:
    from torch import Tensor

    from headlens.data.encode import Batch
    from headlens.lens import Lens


class OutputNormMethod(WatchingMethod):
    """Average length of what the head adds to the residual stream."""

    name = "output-norm"
    title = "Output norm"
    formula = "mean over non-padding positions of ||z_h W_O^h||_2 (a KV group: the norm of its members' sum)"
    source = "Sandoval-Segura et al. 2025 (arXiv 2504.03889); Kobayashi et al. 2020"

    def per_position(self, lens: Lens, request: Request, site: str, layer: int, seen: Tensor, batch: Batch) -> Tensor:  # noqa: ARG002
        """See the base class."""
        place = next(s for s in lens.sites if s.name == site).layers[layer]
        weight = at_least_float32(output_weight(place)).to(seen.device)
        written = torch.einsum("rqhd,hdm->rqmh", at_least_float32(seen), weight)
        if request.unit == "kv":
            written = by_group(lens, site, layer, written, "sum")
        return written.norm(dim=2)
