"""Training of hard-concrete gates on a frozen model: the parameters, their optimiser, and the state in the store."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from headlens.errors import HeadlensError
from headlens.heads import Head
from headlens.metrics import METRICS, readout, reference, sums
from headlens.pruning.hard_concrete import HIGH, LOW, START, TEMPERATURE, open_probability, sampled
from headlens.pruning.order import heads_of
from headlens.run import Edit, LayerKey, Run
from headlens.store import unit_key
from headlens.switches import by_content

if TYPE_CHECKING:
    from torch import Tensor

    from headlens.data.encode import Batch, EncodedData
    from headlens.lens import Lens
    from headlens.pruning.plan import Steps
    from headlens.store import Store

LEARNING_RATE = 0.05
STEPS = 300
CHECKPOINT = 50
"""Steps after which the state is stored."""
TOKENS_PER_STEP = 512


@dataclass(frozen=True)
class GateSpec:
    """How gates are learned.

    Attributes:
        penalty: cost of an open gate, in the unit of the metric (lambda).
        steps: steps of Adam.
        seed: draws the batches and the noise.
        learning_rate: of Adam.
    """

    penalty: float
    steps: int = STEPS
    seed: int = 0
    learning_rate: float = LEARNING_RATE

    def __post_init__(self) -> None:
        if not (self.penalty >= 0 and math.isfinite(self.penalty)):
            raise HeadlensError(f"a penalty of {self.penalty} for an open gate makes no sense; give 0 or more")
        if self.steps < 1:
            raise HeadlensError(f"{self.steps} steps learn nothing; give at least 1")


class GateTraining:
    """The parameters, their optimiser, and one step of it; noise and batches depend on seed and step alone."""

    def __init__(self, lens: Lens, data: EncodedData, steps: Steps, spec: GateSpec, store: Store | None) -> None:
        self.lens, self.data, self.steps, self.spec, self.store = lens, data, steps, spec, store
        self.metric = METRICS["drift" if lens.task == "embedding" else "loss"]
        self.log_a = torch.full((len(steps.columns),), START, dtype=torch.float64, requires_grad=True)
        self.optimizer = torch.optim.Adam([self.log_a], lr=spec.learning_rate)
        self.objective: list[float] = []
        self.expected_open: list[float] = []
        self.places = _places(lens, steps)
        longest = max(example.length for example in data.examples)
        self.rows = max(1, min(16, TOKENS_PER_STEP // max(1, longest), len(data)))
        self.order = by_content(data)

    def key(self, done: int) -> str:
        """Store key of the state after ``done`` steps, which does not depend on how many are to follow."""
        return unit_key(
            kind="learned gates",
            model=self.lens.fingerprint,
            dtype=str(self.lens.dtype),
            data=self.data.hash,
            unit=self.steps.unit,
            sites=None if self.steps.sites is None else list(self.steps.sites),
            penalty=float(self.spec.penalty),
            seed=self.spec.seed,
            learning_rate=float(self.spec.learning_rate),
            constants=[TEMPERATURE, LOW, HIGH, START, self.rows],
            done=done,
        )

    def restore(self) -> int:
        """Takes the latest state from the store; returns the number of steps that are done."""
        stops = range(CHECKPOINT * (self.spec.steps // CHECKPOINT), 0, -CHECKPOINT)
        for done in dict.fromkeys([self.spec.steps, *stops]):
            found = None if self.store is None else self.store.get(self.key(done))
            if found is not None and found["log_a"].shape == self.log_a.shape:
                self._load(found, done)
                return done
        return 0

    def _load(self, state: Mapping[str, np.ndarray], done: int) -> None:
        with torch.no_grad():
            self.log_a.copy_(torch.from_numpy(state["log_a"]))
        moments = {name: torch.from_numpy(state[name]) for name in ("exp_avg", "exp_avg_sq")}
        self.optimizer.state[self.log_a] = {"step": torch.tensor(float(done)), **moments}
        self.objective, self.expected_open = state["objective"].tolist(), state["expected_open"].tolist()

    def keep(self, done: int) -> None:
        """Puts the state into the store."""
        if self.store is not None:
            moments = self.optimizer.state[self.log_a]
            arrays = {name: moments[name].numpy() for name in ("exp_avg", "exp_avg_sq")}
            arrays |= {"objective": np.array(self.objective), "expected_open": np.array(self.expected_open)}
            self.store.put(self.key(done), {"log_a": self.log_a.detach().numpy(), **arrays})

    def step(self, number: int) -> None:
        """One step of Adam on one batch."""
        batch = self._batch(number)
        drawn = np.random.default_rng([self.spec.seed, number]).random((len(batch.indices), len(self.log_a)))
        with torch.enable_grad():
            gates = sampled(self.log_a, torch.from_numpy(drawn))
            expected = open_probability(self.log_a).sum()
            value = self._value(batch, gates)
            total = value + self.spec.penalty * expected
            if not bool(total.isfinite()):
                raise HeadlensError(f"the gates' objective is not finite at step {number + 1}; try --dtype float32")
            self.optimizer.zero_grad()
            total.backward()
        self.optimizer.step()
        self.objective.append(float(value.detach()))
        self.expected_open.append(float(expected.detach()))

    def _value(self, batch: Batch, gates: Tensor) -> Tensor:
        """The metric on a batch under drawn gates ``[rows, gates]``."""
        lens = self.lens
        gates = gates.to(lens.device, lens.dtype)
        edits = {place: Edit(gate=gates[:, index]) for place, index in self.places.items()}
        clean = None
        if self.metric.needs_reference:
            with torch.no_grad():
                clean = reference(readout(lens.forward(batch.inputs, Run()), lens.task), batch)
        values = readout(lens.forward(batch.inputs, Run(edits=edits)), lens.task)
        numerator, weight = sums(self.metric, values, batch, clean)
        return numerator.sum() / weight.sum().clamp(min=1)

    def _batch(self, number: int) -> Batch:
        """The next examples of a shuffle that is new in every round over the data."""
        each = -(-len(self.order) // self.rows)
        rounds, at = divmod(number, each)
        shuffled = self.order[np.random.default_rng([self.spec.seed, rounds, 1]).permutation(len(self.order))]
        return self.data.batch(shuffled[at * self.rows : (at + 1) * self.rows].tolist())


def _places(lens: Lens, steps: Steps) -> dict[LayerKey, Tensor]:
    """For each layer that can be chosen from: which gate each of its present heads has, ``[heads]``."""
    gate_of = {
        head: index
        for index, column in enumerate(steps.columns)
        for head in heads_of(steps.topology, column, steps.unit)
    }
    found: dict[LayerKey, Tensor] = {}
    for place in dict.fromkeys((head.site, head.layer) for head in gate_of):
        present = lens.topology.site(place[0]).layers[place[1]].heads
        found[place] = torch.tensor([gate_of[Head(*place, label)] for label in present], device=lens.device)
    return found
