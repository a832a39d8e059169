"""What is done and what is under way of many runs, and who is told. No torch here."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headlens.lab.results import RunResult
    from headlens.lab.specs import RunSpec


@dataclass(frozen=True)
class Event:
    """Something that happened to a run.

    Attributes:
        spec: the run.
        step, bits: a new point of its learning curve; None when it ended.
        result: what it found, once it has ended.
    """

    spec: RunSpec
    step: int | None = None
    bits: float | None = None
    result: RunResult | None = None


class Schedule:
    """What is done and what is under way."""

    def __init__(
        self,
        specs: Sequence[RunSpec],
        on_progress: Callable[[int, int], None] | None,
        on_event: Callable[[Event], None] | None,
    ) -> None:
        self.total = sum(spec.steps for spec in specs)
        self.on_progress, self.on_event = on_progress, on_event
        self.results: dict[RunSpec, RunResult] = {}
        self.steps: dict[RunSpec, int] = {}

    def finish(self, spec: RunSpec, result: RunResult) -> None:
        self.results[spec], self.steps[spec] = result, spec.steps
        if self.on_event is not None:
            self.on_event(Event(spec, result=result))

    def point(self, spec: RunSpec, step: int, bits: float) -> None:
        self.steps[spec] = step
        if self.on_event is not None:
            self.on_event(Event(spec, step, bits))

    def report(self) -> None:
        if self.on_progress is not None:
            self.on_progress(sum(self.steps.values()), self.total)


def is_at_work(parent: RunSpec | None, busy: Collection[RunSpec]) -> bool:
    """Whether the run that another one starts from is being done: then its weights are worth waiting for."""
    if parent is None:
        return False
    same = (parent.task, parent.architecture, parent.training)
    return any(s.after is None and (s.task, s.architecture, s.training) == same for s in busy)
