"""The task's sequences, targets and loss."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch.nn import functional

if TYPE_CHECKING:
    from torch import Tensor

    from headlens.lab.specs import Task

SCORE_SEQUENCES = 128
"""Sequences on which pruning chooses heads."""
HELD_OUT_SEQUENCES = 512
"""Other sequences, on which every reported loss is measured."""


def generator(purpose: str, seed: int) -> torch.Generator:
    """A source of random numbers of its own for each purpose, so that none depends on how many another drew."""
    digest = hashlib.sha256(f"{purpose}|{seed}".encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:7], "big"))


def sequences(task: Task, number: int, source: torch.Generator) -> Tensor:
    """Independent, uniformly drawn symbols, int64 ``[number, length]``."""
    return torch.randint(task.symbols, (number, task.length), generator=source)


def parts(task: Task, tokens: Tensor) -> Tensor:
    """The symbols that make the targets, ``[sequences, scored positions, distances]``, in the task's order."""
    first, length = task.first, task.length
    return torch.stack([tokens[:, first - distance : length - distance] for distance in task.distances], dim=-1)


def nll(task: Task, logits: Tensor, wanted: Tensor) -> Tensor:
    """Negative log-likelihood of the targets in nats, of the shape of ``wanted`` without its last axis.

    Args:
        task: the task.
        logits: read-out ``[..., outputs]``.
        wanted: :func:`parts`, ``[..., distances]``.
    """
    if task.joint:
        weights = torch.tensor([task.symbols**place for place in range(len(task.distances))])
        classes = (wanted * weights).sum(-1)
        return functional.cross_entropy(logits.flatten(0, -2), classes.flatten(), reduction="none").view(classes.shape)
    apart = logits.unflatten(-1, (len(task.distances), task.symbols))
    found = functional.cross_entropy(apart.flatten(0, -2), wanted.flatten(), reduction="none")
    return found.view(wanted.shape).sum(-1)


def nll_by_distance(task: Task, logits: Tensor, wanted: Tensor) -> Tensor:
    """Negative log-likelihood of each distance's symbol alone in nats, shaped as ``wanted``.

    With a joint read-out a symbol's probability is the sum over all combinations that have it.
    """
    distances, symbols = len(task.distances), task.symbols
    if not task.joint:
        logs = logits.unflatten(-1, (distances, symbols)).log_softmax(-1)
        return -logs.gather(-1, wanted[..., None])[..., 0]
    logs = logits.log_softmax(-1)
    # place 0 counts least in a class's number, so it is the last axis of the unfolded classes
    unfolded = logs.unflatten(-1, (symbols,) * distances)
    lead = logits.dim() - 1
    found = []
    for place in range(distances):
        own = lead + distances - 1 - place
        others = [axis for axis in range(lead, lead + distances) if axis != own]
        alone = torch.logsumexp(unfolded, others) if others else unfolded
        found.append(-alone.gather(-1, wanted[..., place, None])[..., 0])
    return torch.stack(found, dim=-1)


@dataclass(frozen=True)
class Measured:
    """A loss on sequences.

    Attributes:
        bits: mean over all scored positions, in bits; 0 is perfect.
        sem: its standard error over sequences.
    """

    bits: float
    sem: float


def measured(losses: Tensor) -> Measured:
    """Mean and standard error of losses in nats ``[sequences, positions]``, in bits."""
    each = losses.double().mean(-1) / math.log(2)
    sem = float(each.std() / math.sqrt(len(each))) if len(each) > 1 else math.nan
    return Measured(float(each.mean()), sem)
