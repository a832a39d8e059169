"""Training: every step sees new sequences, so the training loss is a loss on unseen data too."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from headlens.lab.task import generator, nll, parts, sequences

if TYPE_CHECKING:
    from headlens.lab.model import LabModel
    from headlens.lab.specs import Training

CURVE_POINTS = 60
CHECKPOINTS = (0.0, 0.05, 0.1, 0.2, 0.35, 0.6, 1.0)
"""Where along the training checkpoints lie, as shares of all steps; early ones are close, since most happens there."""


@dataclass(frozen=True)
class Point:
    """One point of a learning curve.

    Attributes:
        step: steps done.
        bits: mean training loss over the steps since the point before, in bits.
    """

    step: int
    bits: float


@dataclass(frozen=True)
class Watch:
    """Who is told how a training goes; each may raise ``Cancelled``.

    Attributes:
        on_step: called after every step with the steps done.
        on_point: called with every point of the learning curve.
    """

    on_step: Callable[[int], None]
    on_point: Callable[[Point], None]


def train(
    model: LabModel,
    training: Training,
    *,
    purpose: str = "training",
    watch: Watch | None = None,
    on_checkpoint: Callable[[int], None] | None = None,
) -> list[Point]:
    """Trains in place, with torch's AdamW and OneCycleLR (its momentum cycle included).

    Args:
        model: what is trained.
        training: how.
        purpose: names the stream of training sequences; further training takes another one.
        watch: who is told how it goes.
        on_checkpoint: called with the steps done, at the places :data:`CHECKPOINTS`.

    Returns:
        The learning curve, about :data:`CURVE_POINTS` points.
    """
    task, steps = model.task, training.steps
    source = generator(purpose, training.seed)
    optimiser = torch.optim.AdamW(model.parameters(), lr=training.learning_rate, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, training.learning_rate, total_steps=steps)
    every = max(1, steps // CURVE_POINTS)
    stops = checkpoint_steps(steps) if on_checkpoint is not None else []
    curve: list[Point] = []
    since: list[float] = []
    model.train()
    for step in range(steps):
        if on_checkpoint is not None and step in stops:
            on_checkpoint(step)
            model.train()
        tokens = sequences(task, training.batch, source)
        loss = nll(task, model(tokens), parts(task, tokens)).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        since.append(loss.item() / math.log(2))
        if (step + 1) % every == 0 or step + 1 == steps:
            curve.append(Point(step + 1, sum(since) / len(since)))
            since = []
            if watch is not None:
                watch.on_point(curve[-1])
        if watch is not None:
            watch.on_step(step + 1)
    model.eval()
    if on_checkpoint is not None:
        on_checkpoint(steps)
    return curve


def checkpoint_steps(steps: int) -> Sequence[int]:
    """Steps at which checkpoints lie, ascending, each once."""
    return sorted({round(share * steps) for share in CHECKPOINTS})
