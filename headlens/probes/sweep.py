"""The exact sweep over a skill's pairs: what each head does to the logit difference when it alone is off."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from headlens.metrics import Metric
from headlens.sweep import Sweep, SweepSpec

if TYPE_CHECKING:
    from torch import Tensor

    from headlens.data.encode import Batch
    from headlens.heads import Unit
    from headlens.lens import Lens
    from headlens.metrics import Sums
    from headlens.probes.pairs import PairData
    from headlens.store import Store
    from headlens.switches import Ablation

LOGIT_DIFFERENCE = Metric("logit-difference", "Logit difference", "nats", True, True, False, True)
"""Logit of the right answer minus that of the foil; the numerator of an example is the difference of its pair."""


class PairSweep(Sweep):
    """A sweep whose numerator is a pair's logit difference, and whose denominator is 1.

    The effect of a head is how far the difference falls when the head is off, nats: positive means that it helps.

    Args:
        lens, ablation, unit, seed, store, resume, on_progress: as for :class:`headlens.sweep.Sweep`.
        pairs: the pairs of one skill.
    """

    kind = ""

    def __init__(
        self,
        lens: Lens,
        pairs: PairData,
        *,
        ablation: Ablation = "zero",
        unit: Unit = "head",
        seed: int = 0,
        store: Store | None = None,
        resume: bool = True,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> None:
        spec = SweepSpec(LOGIT_DIFFERENCE, ablation, unit, seed)
        super().__init__(lens, pairs.data, spec, store=store, resume=resume, on_progress=on_progress)
        self.pairs = pairs
        self.scored = self._differences

    def _differences(self, values: Tensor, batch: Batch, _clean: Tensor | None) -> Sums:
        found = self.pairs.differences(values, batch.indices)
        return found, torch.ones_like(found)

    def key(self, **what: Any) -> str:
        """See the base class; the foils count too."""
        return super().key(pairs=self.pairs.hash, **what)
