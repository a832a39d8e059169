"""Which heads of a trained model can go: greedily, at random, and (small cases) by trying every subset."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import torch

from headlens.lab.task import (
    HELD_OUT_SEQUENCES,
    SCORE_SEQUENCES,
    Measured,
    generator,
    measured,
    nll,
    nll_by_distance,
    parts,
    sequences,
)

if TYPE_CHECKING:
    from torch import Tensor

    from headlens.lab.model import LabModel

KEPT_GAIN = 0.9
"""A head is prunable while the model keeps this share of what it has gained over guessing."""
LEARNT_SOMETHING = 0.1
"""Gain over guessing, in symbols, below which "prunable" means nothing: a model that knows nothing loses nothing."""
_POSITIONS_AT_ONCE = 60_000


class Bench:
    """One model on one set of sequences, with what every head writes computed once.

    What stands after attention is computed anew for every set of heads, so any choice of heads is exact and cheap.
    """

    def __init__(self, model: LabModel, purpose: str, number: int) -> None:
        tokens = sequences(model.task, number, generator(purpose, 0))
        self.model, self.tokens = model, tokens
        self.wanted = parts(model.task, tokens)
        with torch.inference_mode():
            self.entering, z = model.head_outputs(tokens)
            self.written = model.written(z)  # [sequences, positions, heads, width]

    @property
    def heads(self) -> int:
        """Heads of the model."""
        return self.model.architecture.heads

    def logits(self, keep: Sequence[int]) -> Tensor:
        """Read-out ``[sequences, positions, outputs]`` with the heads ``keep`` on and the others at zero."""
        with torch.inference_mode():
            return self.model.after_attention(self.entering + self.written[:, :, list(keep)].sum(2))

    def loss(self, keep: Sequence[int]) -> Measured:
        """Loss in bits with the heads ``keep`` on."""
        return measured(nll(self.model.task, self.logits(keep), self.wanted))

    def losses(self, choices: Sequence[Sequence[int]]) -> list[float]:
        """Loss in bits of each choice of heads, several computed at once."""
        found: list[float] = []
        at_once = max(1, _POSITIONS_AT_ONCE // self.entering[..., 0].numel())
        for start in range(0, len(choices), at_once):
            some = choices[start : start + at_once]
            masks = torch.zeros(len(some), self.heads)
            for row, keep in enumerate(some):
                masks[row, list(keep)] = 1.0
            with torch.inference_mode():
                hidden = self.entering + torch.einsum("ch,sphw->cspw", masks, self.written)
                each = nll(
                    self.model.task, self.model.after_attention(hidden), self.wanted.expand(len(some), -1, -1, -1)
                )
            found.extend(measured(losses).bits for losses in each)
        return [math.inf if math.isnan(bits) else bits for bits in found]  # a diverged model is never the best

    def by_distance(self, keep: Sequence[int]) -> list[float]:
        """Loss in bits of each distance's symbol alone, in the task's order."""
        each = nll_by_distance(self.model.task, self.logits(keep), self.wanted)
        return [measured(each[..., place]).bits for place in range(each.shape[-1])]


def score_bench(model: LabModel) -> Bench:
    """The sequences on which heads are chosen."""
    return Bench(model, "score", SCORE_SEQUENCES)


def held_out_bench(model: LabModel) -> Bench:
    """The sequences on which results are reported."""
    return Bench(model, "held-out", HELD_OUT_SEQUENCES)


def greedy(bench: Bench, down_to: int = 0) -> list[tuple[int, ...]]:
    """Removes one head after another, each time the one whose loss hurts least (of equal ones the first).

    Returns:
        The heads kept at each size, all of them first, ``down_to`` of them last.
    """
    kept = tuple(range(bench.heads))
    path = [kept]
    while len(kept) > down_to:
        choices = [tuple(h for h in kept if h != head) for head in kept]
        losses = bench.losses(choices)
        kept = choices[losses.index(min(losses))]
        path.append(kept)
    return path


def best_subset(bench: Bench, size: int) -> tuple[int, ...]:
    """The best of all subsets of that size, by trying every one."""
    choices = list(combinations(range(bench.heads), size))
    losses = bench.losses(choices)
    return choices[losses.index(min(losses))]


def random_subsets(heads: int, size: int, number: int, seed: int) -> list[tuple[int, ...]]:
    """Seeded random choices of ``size`` heads, each ascending."""
    source = generator("random heads", seed)
    return [tuple(sorted(torch.randperm(heads, generator=source)[:size].tolist())) for _ in range(number)]


@dataclass(frozen=True)
class Prunable:
    """How many heads can go at one moment of a training.

    Attributes:
        step: steps done.
        bits: held-out loss with all heads.
        by_size: held-out loss in bits with 0, 1, ... all heads kept, greedily chosen, ``[heads + 1]``.
        share: largest share of heads that can go while :data:`KEPT_GAIN` of the gain over guessing stays; None while
            the gain is below :data:`LEARNT_SOMETHING` symbols.
    """

    step: int
    bits: float
    by_size: tuple[float, ...]
    share: float | None


def prunable(model: LabModel, step: int) -> Prunable:
    """Measures it: heads chosen on the score sequences, losses on the held-out ones."""
    path, held_out = greedy(score_bench(model)), held_out_bench(model)
    losses = tuple(reversed(held_out.losses(path)))  # fewest heads first
    return Prunable(step, losses[-1], losses, prunable_share(losses, model.task.guessing, model.task.bits_a_distance))


def prunable_share(by_size: Sequence[float], guessing: float, symbol: float) -> float | None:
    """``Prunable.share`` from losses in bits by number of heads kept; ``symbol`` is what one symbol is worth."""
    heads, gain = len(by_size) - 1, guessing - by_size[-1]
    if gain < LEARNT_SOMETHING * symbol:
        return None
    kept = heads
    while kept > 0 and guessing - by_size[kept - 1] >= KEPT_GAIN * gain:
        kept -= 1
    return 1 - kept / heads
