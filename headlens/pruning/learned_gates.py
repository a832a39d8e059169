"""Learned gates: another way to choose heads. Voita et al. 2019, section 5: hard-concrete gates under an L0 penalty.

Every head's ``z`` is multiplied by a gate between 0 and 1 whose distribution has one parameter; the model stays frozen.
The objective is the metric plus ``penalty`` times the expected number of open gates. Gates that help too little close.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from headlens.heads import HeadSet
from headlens.pruning.gate_training import CHECKPOINT, STEPS, GateSpec, GateTraining
from headlens.pruning.hard_concrete import settled
from headlens.pruning.order import Column, off_set, with_floor
from headlens.server import limits

if TYPE_CHECKING:
    from headlens.data.encode import EncodedData
    from headlens.lens import Lens
    from headlens.pruning.plan import Steps
    from headlens.store import Store


@dataclass(frozen=True)
class LearnedGates:
    """What was learned.

    Attributes:
        spec: how.
        off: heads whose gate without noise is below one half, but for those that the floor keeps.
        columns: what each gate stands for.
        gates: gates without noise ``[gates]``.
        undecided: gates between 0.05 and 0.95: rounding them to off or on changes the model that was trained.
        objective: metric of each step's batch under drawn gates, without the penalty ``[steps]``.
        expected_open: expected number of open gates at each step ``[steps]``.
        seconds: time of the computation alone.
        cached: steps taken from the store.
    """

    spec: GateSpec
    off: HeadSet
    columns: tuple[Column, ...]
    gates: np.ndarray
    undecided: int
    objective: np.ndarray
    expected_open: np.ndarray
    seconds: float
    cached: int

    @property
    def seed(self) -> int:
        """Of the training."""
        return self.spec.seed


def learn_gates(
    lens: Lens,
    data: EncodedData,
    steps: Steps,
    spec: GateSpec,
    *,
    store: Store | None = None,
    resume: bool = True,
    on_progress: Callable[[int, int], None] | None = None,
) -> LearnedGates:
    """Learns one set of gates on ``data``.

    The metric is the loss, or the drift where there is no task head (drawn gates are not "all on", so it has a slope).
    Unlike in the paper each example of a batch gets gates of its own: the same objective with less noise.

    Args:
        lens: the model; its weights do not change.
        data: what the gates are learned on.
        steps: which heads (or KV groups: one gate for all members) can be chosen, and the floor.
        spec: penalty, steps, seed.
        store: the state is kept there every ``CHECKPOINT`` steps.
        resume: go on from there.
        on_progress: called with (done, total) steps; may raise to cancel.

    Raises:
        HeadlensError: the objective is not finite.
    """
    limits.current().check_training()
    training = GateTraining(lens, data, steps, spec, store)
    done = training.restore() if resume else 0
    cached, start = done, time.perf_counter()
    while done < spec.steps:
        if on_progress is not None:
            on_progress(done, spec.steps)
        training.step(done)
        done += 1
        if done % CHECKPOINT == 0 or done == spec.steps:
            training.keep(done)
    if on_progress is not None:
        on_progress(done, spec.steps)
    gates = settled(training.log_a.detach()).numpy()
    order = [steps.columns[i] for i in np.argsort(training.log_a.detach().numpy(), kind="stable")]
    closed = {column for column, gate in zip(steps.columns, gates, strict=True) if gate < 0.5}
    chosen = [column for column in with_floor(order, steps.floor) if column in closed]
    return LearnedGates(
        spec,
        off_set(steps.topology, chosen, steps.unit),
        steps.columns,
        gates,
        int(((gates > 0.05) & (gates < 0.95)).sum()),
        np.array(training.objective),
        np.array(training.expected_open),
        time.perf_counter() - start,
        cached,
    )


def sweep_penalties(
    lens: Lens,
    data: EncodedData,
    steps: Steps,
    penalties: Sequence[float],
    *,
    count: int = STEPS,
    seed: int = 0,
    store: Store | None = None,
    resume: bool = True,
    on_progress: Callable[[int, int], None] | None = None,
    on_phase: Callable[[str], None] | None = None,
) -> list[LearnedGates]:
    """One training of ``count`` steps for each penalty; see :func:`learn_gates`."""
    found = []
    for number, penalty in enumerate(penalties, start=1):
        if on_phase is not None:
            on_phase(f"learned gates, penalty {penalty:g} ({number} of {len(penalties)})")
        spec = GateSpec(penalty, count, seed)
        found.append(learn_gates(lens, data, steps, spec, store=store, resume=resume, on_progress=on_progress))
    return found
