"""How a recovery trains: the settings, their limits, and the learning rate at each step."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from headlens.errors import HeadlensError

STEPS = 200
PER_STEP = 8
EVALUATIONS = 10
"""So often the watched examples are measured unless told otherwise."""
MOST_BETWEEN = 25
"""Most steps between two evaluations unless told otherwise."""


@dataclass(frozen=True)
class RecoverySpec:
    """How to train.

    Attributes:
        steps: most steps of AdamW (Loshchilov, Hutter 2019, arXiv 1711.05101).
        objective: ``task`` or ``distill``, see :mod:`headlens.pruning.objectives`.
        learning_rate: the highest; None takes :func:`default_rate`.
        per_step: examples of one step.
        rows: examples that are run at a time (the gradients of one step are added up); None takes all of a step.
        warmup: share of the steps in which the rate rises from 0; afterwards it falls along a half cosine to 0.
        weight_decay: of matrices; vectors (biases, norms) have none.
        clip: longest gradient (l2 norm over all parameters).
        every: steps between two evaluations; None: ten of them, at most 25 steps apart.
        patience: evaluations without a new best after which it stops; 0 never stops early.
        temperature: of the distillation.
        freeze_embeddings: leave the input embeddings (and an output layer that shares them) as they are.
        seed: draws the order of the examples and the hidden words.
    """

    steps: int = STEPS
    objective: Any = "task"
    learning_rate: float | None = None
    per_step: int = PER_STEP
    rows: int | None = None
    warmup: float = 0.1
    weight_decay: float = 0.01
    clip: float = 1.0
    every: int | None = None
    patience: int = 4
    temperature: float = 1.0
    freeze_embeddings: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        checks = (
            (self.steps >= 1, f"{self.steps} steps train nothing; give at least 1"),
            (self.objective in ("task", "distill"), f"unknown objective {self.objective!r}; task or distill"),
            (self.per_step >= 1 and (self.rows or 1) >= 1, "a step takes at least 1 example"),
            (0 <= self.warmup < 1, f"a warm-up of {self.warmup:g} of the steps; give a share from 0 to below 1"),
            (self.weight_decay >= 0, f"a weight decay of {self.weight_decay:g}; give 0 or more"),
            (self.clip > 0, f"a longest gradient of {self.clip:g}; give a number above 0"),
            ((self.every or 1) >= 1, "steps between evaluations: at least 1"),
            (self.patience >= 0, f"a patience of {self.patience}; give 0 (never stop early) or more"),
            (0 < self.temperature < math.inf, f"a temperature of {self.temperature:g}; give a number above 0"),
        )
        for fine, complaint in checks:
            if not fine:
                raise HeadlensError(complaint)
        if self.learning_rate is not None and not 0 < self.learning_rate < 1:
            raise HeadlensError(
                f"a learning rate of {self.learning_rate:g}; give a number between 0 and 1, such as 1e-4"
            )

    @property
    def interval(self) -> int:
        """Steps between two evaluations."""
        return self.every or max(1, min(MOST_BETWEEN, self.steps // EVALUATIONS))

    def rate(self, step: int, highest: float) -> float:
        """Learning rate of step number ``step`` (from 0)."""
        rising = round(self.warmup * self.steps)
        if step < rising:
            return highest * (step + 1) / rising
        return highest * 0.5 * (1 + math.cos(math.pi * (step - rising) / (self.steps - rising)))

    def decides(self) -> dict[str, Any]:
        """What of it can change a number by more than rounding."""
        return {name: value for name, value in asdict(self).items() if name != "rows"}


def default_rate(width: int) -> float:
    """Highest learning rate for a model of that width: 0.02 / width, at most 0.001.

    A rate that falls with the width keeps the size of AdamW's changes of the activations (Yang, Hu et al. 2022, arXiv
    2203.03466, Table 3); it gives 2.6e-5 at 768, within the usual range of fine-tuning.
    """
    return min(1e-3, 0.02 / width)
