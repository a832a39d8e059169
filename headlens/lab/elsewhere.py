"""Runs of the lab on the workers of a cluster; on this machine :mod:`headlens.lab.pool` has processes of its own."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from headlens.engine.base import Job, Recipe
from headlens.errors import StoreError
from headlens.lab.estimate import total_seconds
from headlens.lab.results import RunResult, stored, versions
from headlens.lab.schedule import is_at_work
from headlens.lab.specs import RunSpec
from headlens.store import Store, unit_key

if TYPE_CHECKING:
    from headlens.engine.base import Engine
    from headlens.engine.worker import Note
    from headlens.lab.schedule import Schedule

WORKER_BYTES = 700 * 2**20
"""A process with torch and transformers in it; the models of the lab are small beside that."""


class LabJob(Job[RunSpec, RunResult]):
    """Runs, of which none is known yet.

    Args:
        store: where results go.
        schedule: who is told.
        resume: whether workers take weights that they have.
    """

    def __init__(self, store: Store, schedule: Schedule, resume: bool) -> None:
        self.store, self.schedule, self.resume = store, schedule, resume
        self._mark = unit_key(lab_store=uuid4().hex)
        self._told: dict[RunSpec, int] = {}

    def known(self, unit: RunSpec) -> RunResult | None:  # noqa: ARG002 - the pool has asked the store
        """See the base class."""
        return None

    def measure(self, unit: RunSpec) -> dict[str, Any]:
        """See the base class."""
        from headlens.lab.experiment import run

        return run(unit, self.store, resume=self.resume).to_dict()

    def keep(self, unit: RunSpec, found: Mapping[str, Any], seconds: float) -> RunResult:  # noqa: ARG002 - the result's
        """See the base class."""
        result = RunResult.from_dict(found)
        if not self.resume or stored(unit, self.store) is None:
            self.store.put(unit.key(versions()), {}, {"result": result.to_dict()})
        self.schedule.finish(unit, result)
        return result

    def waits(self, unit: RunSpec, busy: Collection[RunSpec]) -> bool:
        """See the base class: a run that starts from another's weights waits for them."""
        return is_at_work(unit.parent, busy)

    def told(self, unit: RunSpec, note: Mapping[str, Any] | None) -> None:
        """See the base class: steps done, and the learning curve so far."""
        if note is None:
            self.schedule.steps[unit] = self._told[unit] = 0
            return
        for step, bits in note["curve"][self._told.get(unit, 0) :]:
            self.schedule.point(unit, step, bits)
        self._told[unit] = len(note["curve"])
        self.schedule.steps[unit] = max(self.schedule.steps.get(unit, 0), note["step"])

    def look(self) -> None:
        """See the base class."""
        self.schedule.report()

    def order(self, unit: RunSpec) -> Mapping[str, Any]:
        """See the base class."""
        return {"spec": unit.to_dict(), "resume": self.resume}

    def recipe(self) -> Recipe:
        """See the base class; a mark in the store shows a worker whether it sees the same one."""
        self.store.put(self._mark, {})
        return Recipe("lab", {"store": self.store.where, "mark": self._mark}, WORKER_BYTES)

    def forget_mark(self) -> None:
        """Takes the mark away again."""
        with suppress(StoreError):
            self.store.discard(self._mark)


def run_elsewhere(
    engine: Engine, waiting: Sequence[RunSpec], job: LabJob, confirm: Callable[[float], None] | None
) -> None:
    """Does runs on a cluster, whose speed is guessed; see :func:`headlens.lab.pool.run_all`."""
    if waiting and confirm is not None:
        confirm(total_seconds(list(waiting), min(len(waiting), engine.capacity()), 1.0))
    try:
        for _ in engine.run(job, waiting):
            job.look()
    finally:
        job.forget_mark()


class _Running:
    """Does runs. Trained weights are kept in the command's store where this machine sees it, else in its own."""

    def __init__(self, shared: Mapping[str, Any], _opened: dict[Any, Any]) -> None:
        self.store = _seen(shared["store"], shared["mark"]) or _own()

    def do(self, order: Mapping[str, Any], note: Note) -> dict[str, Any]:
        """One run."""
        from headlens.lab.experiment import run
        from headlens.lab.training import Point, Watch

        curve: list[tuple[int, float]] = []

        def on_point(point: Point) -> None:
            curve.append((point.step, point.bits))

        watch = Watch(lambda step: note({"step": step, "curve": tuple(curve)}), on_point)
        spec = RunSpec.from_dict(order["spec"])
        return run(spec, self.store, resume=order["resume"], watch=watch).to_dict()


def _seen(where: str, mark: str) -> Store | None:
    with suppress(StoreError):
        store = Store(where)
        return store if mark in store else None
    return None


def _own() -> Store | None:
    with suppress(StoreError):
        store = Store()
        store.check()
        return store
    return None


worker_for = _Running
