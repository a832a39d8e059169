"""The Ray engine: units go to workers on the machines of a cluster, results come back and are kept here.

Workers stay for the whole command, each with its model open. A worker that is lost (its machine went away, the system
ended it) has its unit done by another one; a new one takes its place where the cluster has room, and machines that
join are used. Only what comes back is counted, once.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from headlens.engine import cluster
from headlens.engine.base import GONE, Engine, GoneError, Job, Recipe, Result, Unit, WorkerState
from headlens.engine.crew import Crew
from headlens.engine.local import LocalEngine
from headlens.errors import HeadlensError

MOST_LOSSES = 3
"""A unit that has cost so many workers is not given to another."""
WATCH_SECONDS, MOST_MISSING = 5.0, 3
"""So often an idle connection is looked at, and so often in a row the head may be missing: Ray waits a minute."""
PARTS_EACH = 4
"""Parts for each worker into which few units are cut, so that all end at about the same time."""
_logger = logging.getLogger(__name__)


class RayEngine(Engine):
    """Connected when it is made; workers start with the first job.

    Args:
        address, workers: see :func:`headlens.engine.choose.engine_for`.

    Raises:
        HeadlensError: no cluster answers.
    """

    name = "ray"
    remote = True

    def __init__(self, address: str | None = None, workers: int | None = None) -> None:
        self._ours = cluster.connect(address, workers)
        self._most = workers
        self._crew: Crew | None = None
        self._turn = threading.Lock()
        self._jobs = 0
        self._gone = False
        self._closed = threading.Event()
        threading.Thread(target=self._watch, name="headlens-ray-watch", daemon=True).start()

    @property
    def alive(self) -> bool:
        """See the base class."""
        return not self._gone

    def _watch(self) -> None:
        """Leaves a cluster whose head is gone while nothing is at work: Ray would end this process, a server perhaps.

        While there is work, its own loop looks (:meth:`Crew.check`).
        """
        missing = 0
        while not self._closed.wait(WATCH_SECONDS):
            if not self._turn.acquire(blocking=False):
                missing = 0
                continue
            try:
                missing = 0 if self._gone or cluster.head_is_there() else missing + 1
                if missing >= MOST_MISSING:
                    self._leave()
            finally:
                self._turn.release()

    def _leave(self) -> None:
        """Without a word to the cluster."""
        self._gone = True
        if self._crew is not None:
            self._crew.abandon()
        cluster.disconnect()
        _logger.warning("%s", GONE)

    def capacity(self) -> int:
        """See the base class."""
        found = max(1, cluster.places(0, False))
        return found if self._most is None else min(self._most, found)

    def workers(self) -> Sequence[WorkerState]:
        """See the base class."""
        return () if self._crew is None else self._crew.states()

    def close(self) -> None:
        """Ends the workers, and Ray where it is our own."""
        self._closed.set()
        if self._crew is not None:
            self._crew.end()
        if self._ours:
            cluster.disconnect()
            self._ours = False

    def run(self, job: Job[Unit, Result], units: Iterable[Unit]) -> Iterator[Result]:
        """See the base class; results come as they are done."""
        waiting: list[Unit] = []
        for unit in units:
            found = job.known(unit)
            if found is None:
                waiting.append(unit)
            else:
                yield found
        if not waiting:
            return
        recipe = job.recipe()
        if recipe is None:
            yield from LocalEngine().run(job, waiting)
            return
        while not self._turn.acquire(timeout=0.3):  # another job of this process is at work
            job.look()
        try:
            if self._gone:
                raise GoneError(GONE)
            yield from self._work_through(job, recipe, waiting)
        except GoneError:
            self._leave()
            raise
        finally:
            self._turn.release()

    def _work_through(self, job: Job[Unit, Result], recipe: Recipe, units: Sequence[Unit]) -> Iterator[Result]:
        crew = self._crew_for(recipe)
        self._jobs += 1
        count = -(-PARTS_EACH * max(1, crew.room()) // len(units))
        parts = [part for unit in units for part in (job.parts(unit, count) if count > 1 else (unit,))]
        run = _Run(job, parts, crew)
        crew.begin(self._jobs, recipe)
        try:
            while run.waiting or crew.busy:
                crew.check()
                crew.fill(len(run.waiting) + len(crew.busy))
                run.deal()
                yield from run.collect()
                job.look()
        except GoneError:
            crew.abandon()
            raise
        finally:
            crew.stop_busy()

    def _crew_for(self, recipe: Recipe) -> Crew:
        """The workers that are there; others where they would be too small for this job's model."""
        crew = self._crew
        if crew is None or recipe.memory > crew.memory or recipe.accelerator != crew.accelerator:
            if crew is not None:
                crew.end()
            self._crew = crew = Crew(self._most, recipe.memory, recipe.accelerator, before=crew)
        return crew


class _Run:
    """The units of one job that are still to do, and those that come back."""

    def __init__(self, job: Job[Any, Any], parts: Sequence[Any], crew: Crew) -> None:
        self.job, self.crew = job, crew
        self.waiting = list(parts)
        self.losses: dict[Any, int] = {}

    def deal(self) -> None:
        """Something to do for everybody who is idle: of the homes that a worker knows if it is about as urgent."""
        for hand in self.crew.idle():
            free = [unit for unit in self.waiting if not self.job.waits(unit, self.crew.busy.values())]
            if not free:
                return
            near = free[: 2 * max(1, len(self.crew.hands))]
            unit = next((unit for unit in near if self.job.home(unit) in hand.homes), free[0])
            self.waiting.remove(unit)
            hand.homes.add(self.job.home(unit))
            self.crew.give(hand, unit, self.job.order(unit))

    def collect(self) -> Iterator[Any]:
        """Results that have come; what a lost worker had goes back to the front."""
        for unit, said in self.crew.said():
            if said[0] == "note":
                self.job.told(unit, said[1])
            elif said[0] == "lost":
                self.job.told(unit, None)
                self._again(unit, said[1])
            elif said[0] == "done":
                self.job.finished(unit, said[2])
                found = self.job.keep(unit, said[1], said[2])
                if found is not None:
                    yield found
            else:
                raise _trouble(*said)

    def _again(self, unit: Any, where: str) -> None:
        self.losses[unit] = self.losses.get(unit, 0) + 1
        _logger.warning("a worker on %s was lost; its unit is done by another", where or "a machine of the cluster")
        if self.losses[unit] >= MOST_LOSSES:
            raise HeadlensError(
                f"the same unit of work has cost {MOST_LOSSES} workers, the last on {where}: short of memory? "
                "Try a smaller --batch-size or fewer --workers; what is finished is stored"
            )
        self.waiting.insert(0, unit)


def _trouble(kind: str, text: str) -> Exception:
    """What a worker tells of going wrong."""
    if kind == "failed":
        return HeadlensError(f"a worker of the cluster: {text}")
    if kind == "memory":
        return HeadlensError("a worker is out of memory; try --batch-size 1, a smaller --max-tokens or fewer --workers")
    return RuntimeError(f"a unit failed on a worker: {text}")
