"""Where a training stands: its evaluations, its best, its time. JSON-ready."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Progress:
    """One evaluation.

    Attributes:
        step: steps done.
        train: mean of the objective over the predictions of the steps since the last evaluation (NaN at step 0).
        watched, watched_sem: the watched metric, and its standard error over examples.
        best: whether it is the best so far.
        seconds: of training so far, without breaks.
    """

    step: int
    train: float
    watched: float
    watched_sem: float
    best: bool
    seconds: float


@dataclass
class State:
    """Where a training stands.

    Attributes:
        step: steps done.
        best_step, best: the best evaluation so far.
        stale: evaluations since then.
        points: evaluations.
        objective: mean of the objective by step.
        seconds: of training so far.
    """

    step: int = 0
    best_step: int = 0
    best: float = math.inf
    stale: int = 0
    points: list[Progress] = field(default_factory=list)
    objective: list[float] = field(default_factory=list)
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """JSON-ready."""
        return asdict(self)

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> State:
        """The reverse of :meth:`to_json`."""
        return cls(**{**facts, "points": [Progress(**point) for point in facts["points"]]})
