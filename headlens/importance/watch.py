"""Methods that watch heads in plain forward passes: one number for each example and head."""

from __future__ import annotations

import time
from abc import abstractmethod
from typing import TYPE_CHECKING

import numpy as np
import torch

from headlens.importance.base import Method, Raw, Request, empty
from headlens.run import Run

if TYPE_CHECKING:
    from torch import Tensor

    from headlens.data.encode import Batch
    from headlens.lens import Lens


class WatchingMethod(Method):
    """Base of methods that average a quantity of each query position over positions, in one forward pass."""

    needs = ("data",)
    cost = "1 forward for all heads"
    watches_pattern = False

    @abstractmethod
    def per_position(self, lens: Lens, request: Request, site: str, layer: int, seen: Tensor, batch: Batch) -> Tensor:
        """The quantity, ``[rows, query, columns present]``; ``seen`` is ``z`` or the pattern of the layer."""

    def counted(self, lens: Lens, batch: Batch, site: str, queries: int) -> Tensor:  # noqa: ARG002
        """Which query positions count, bool ``[rows, query]``."""
        return batch.positions(site, queries)

    def compute(self, lens: Lens, request: Request) -> Raw:
        """See the base class."""
        data = request.need_data()
        start = time.perf_counter()
        numerator = empty(lens, request.unit, len(data))
        denominator = {site: np.zeros(len(data)) for site in numerator}
        batches = data.batches(request.batch_size or 8)
        for done, batch in enumerate(batches):
            watcher = _Watcher(self, lens, request, batch, numerator, denominator)
            run = Run(on_pattern=watcher) if self.watches_pattern else Run(on_z=watcher)
            with torch.inference_mode():
                lens.forward(batch.inputs, run)
            if request.on_progress is not None:
                request.on_progress(done + 1, len(batches))
        return Raw(numerator, denominator, seconds=time.perf_counter() - start)


class _Watcher:
    """Receives ``z`` or patterns layer by layer and adds up the method's quantity."""

    def __init__(
        self,
        method: WatchingMethod,
        lens: Lens,
        request: Request,
        batch: Batch,
        numerator: dict[str, np.ndarray],
        denominator: dict[str, np.ndarray],
    ) -> None:
        self.method, self.lens, self.request, self.batch = method, lens, request, batch
        self.numerator, self.denominator = numerator, denominator

    def __call__(self, site: str, layer: int, seen: Tensor) -> None:
        queries = seen.shape[-2] if self.method.watches_pattern else seen.shape[1]
        counted = self.method.counted(self.lens, self.batch, site, queries)
        found = self.method.per_position(self.lens, self.request, site, layer, seen, self.batch)
        rows = list(self.batch.indices)
        columns = self.lens.topology.site(site).columns(layer, self.request.unit)
        total = found.masked_fill(~counted[:, :, None], 0.0).cpu().double().sum(1).numpy()  # [rows, columns]
        self.numerator[site][np.ix_(rows, [layer], columns)] = total[:, None, :]
        self.denominator[site][rows] = counted.sum(1).cpu().numpy()


def by_group(lens: Lens, site: str, layer: int, values: Tensor, how: str) -> Tensor:
    """``[..., heads present]`` to ``[..., groups]`` by ``sum`` or ``mean`` over a group's members (last axis)."""
    shape = lens.topology.site(site).layers[layer]
    members = [[shape.heads.index(h) for h in shape.members(group)] for group in shape.groups]
    return torch.stack([getattr(values[..., index], how)(-1) for index in members], dim=-1)
