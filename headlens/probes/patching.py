"""Head patching: how much of the right answer comes back when one head gets what it had on the right text.

A corrupted text, as long as the clean one, asks for the foil. In it the ``z`` of one head, at every position, is set to
what that head has on the clean text. The recovered share is (patched - corrupted) / (clean - corrupted), in logit
differences of the clean pair: 1 where one head brings the whole answer back, negative where it works against it
(Wang et al. 2022; the demo notebooks of TransformerLens).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from headlens.errors import HeadlensError
from headlens.importance.base import empty
from headlens.live import record_blocks, replay_below
from headlens.metrics import readout
from headlens.run import Edit, LayerKey, Run

if TYPE_CHECKING:
    from torch import Tensor

    from headlens.lens import Lens
    from headlens.probes.pairs import PairData

BATCH_SIZE = 8


@dataclass(frozen=True)
class Patched:
    """What each head brings back.

    Attributes:
        clean, corrupted: mean logit difference right - foil on either text, nats.
        recovered: by site, share that comes back, ``[layer, head]``; NaN where there is no such head.
        sem: by site, its standard error over pairs (of the ratio of sums, by linearisation), ``[layer, head]``.
    """

    clean: float
    corrupted: float
    recovered: Mapping[str, np.ndarray]
    sem: Mapping[str, np.ndarray]


def patch_heads(
    lens: Lens, clean: PairData, corrupted: PairData, *, on_progress: Callable[[int, int], None] | None = None
) -> Patched:
    """Patches every head of every site in turn.

    Args:
        lens: the model.
        clean: the pairs.
        corrupted: their corrupted texts, in the same order; their own answers do not count.
        on_progress: called with (done, total) heads times batches; may raise to cancel.

    Raises:
        HeadlensError: no pairs, a different number, or a text that is longer or shorter than its partner.
    """
    lengths = [
        [{n: v.shape for n, v in each.inputs.items()} for each in data.data.examples] for data in (clean, corrupted)
    ]
    if not len(clean) or lengths[0] != lengths[1]:
        raise HeadlensError("every clean text needs a corrupted one of the same number of tokens")
    batches = [range(i, min(i + BATCH_SIZE, len(clean))) for i in range(0, len(clean), BATCH_SIZE)]
    steps = _counted(on_progress, len(batches) * len(lens.topology.heads()))
    before, after = np.empty(len(clean)), np.empty(len(clean))
    patched = empty(lens, "head", len(clean))
    for rows in batches:
        whole = _Batch(lens, clean, corrupted, list(rows))
        before[rows], after[rows] = whole.clean, whole.corrupted
        for head in lens.topology.heads():
            patched[head.site][rows, head.layer, head.head] = whole.patched(head.site, head.layer, head.head)
            steps()
    pairs = {site: _share(array - after[:, None, None], before - after) for site, array in patched.items()}
    return Patched(
        float(before.mean()),
        float(after.mean()),
        {site: pair[0] for site, pair in pairs.items()},
        {site: pair[1] for site, pair in pairs.items()},
    )


def _share(back: np.ndarray, whole: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Ratio of sums over pairs and its standard error, of ``[pairs, layer, head]`` to ``[pairs]``.

    As :func:`headlens.metrics.ratio`, but the whole of a pair may be negative: a model may well do
    better on the corrupted text.
    """
    pairs, total = len(whole), whole.sum()
    share = back.sum(0) / total
    rest = back - share * whole[:, None, None]
    error = np.sqrt(pairs / max(1, pairs - 1) * (rest**2).sum(0)) / abs(total)
    return share, error if pairs > 1 else np.full_like(share, np.nan)


def _counted(on_progress: Callable[[int, int], None] | None, total: int) -> Callable[[], None]:
    done = 0

    def step() -> None:
        nonlocal done
        done += 1
        if on_progress is not None:
            on_progress(done, total)

    return step


class _Batch:
    """Some pairs: every head's ``z`` on the clean texts, every block's output on the corrupted ones."""

    def __init__(self, lens: Lens, clean: PairData, corrupted: PairData, rows: list[int]) -> None:
        self.lens, self.pairs, self.rows = lens, clean, rows
        self.inputs = corrupted.data.batch(rows).inputs
        self.z: dict[LayerKey, Tensor] = {}
        with torch.inference_mode():
            run = Run(on_z=lambda site, layer, z: self.z.__setitem__((site, layer), z.clone()))
            self.clean = self._differences(lens.forward(clean.data.batch(rows).inputs, run))
            self.blocks, output = record_blocks(lens, self.inputs)
            self.corrupted = self._differences(output)

    def patched(self, site: str, layer: int, head: int) -> np.ndarray:
        """Logit differences with one head of the corrupted run taken from the clean one, ``[rows]``."""
        key = (site, layer)
        present = self.lens.topology.site(site).layers[layer].heads
        off = torch.tensor([[label == head for label in present]], device=self.lens.device)
        run = Run(edits={key: Edit(off, self.z[key])}, replay=replay_below(self.lens, self.blocks, [key]))
        with torch.inference_mode():
            return self._differences(self.lens.forward(self.inputs, run))

    def _differences(self, output: object) -> np.ndarray:
        return self.pairs.differences(readout(output, self.lens.task), self.rows).numpy()
