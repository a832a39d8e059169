"""What an engine is, and what it is given: a job, whose units do not depend on one another.

Sweeps, curves and runs of the lab say what their units are, how one is done and how its result is kept. The engine
says where and when. The store stays with the command: workers compute, the command that asked writes, so a unit that
was done twice (its first worker died) is still counted once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Literal, TypeVar

from headlens.errors import HeadlensError

Standing = Literal["starting", "ready", "working", "lost", "ended"]
Unit = TypeVar("Unit", bound=Hashable)
Result = TypeVar("Result")


@dataclass(frozen=True)
class WorkerState:
    """One worker, for those who watch.

    Attributes:
        number: counts up; a worker that takes the place of a lost one has a new number.
        place: the machine, or empty while it starts.
        standing: what it does; ``lost`` if it went away by itself, ``ended`` if it was not wanted any more.
        done: units (or parts of units) that it has finished.
    """

    number: int
    place: str
    standing: Standing
    done: int


@dataclass(frozen=True)
class Recipe:
    """All that a worker elsewhere needs to do units of a job.

    Attributes:
        kind: a key of :data:`headlens.engine.worker.KINDS`.
        shared: what the units have in common: names, numbers and bytes, never a model.
        memory: bytes that a worker takes, about.
        accelerator: whether each worker needs a GPU of its own.
    """

    kind: str
    shared: Mapping[str, Any] = field(default_factory=dict)
    memory: int = 0
    accelerator: bool = False


class Job(ABC, Generic[Unit, Result]):
    """Units of work that share a model and data."""

    @abstractmethod
    def known(self, unit: Unit) -> Result | None:
        """The unit's result if it is in the store."""

    @abstractmethod
    def measure(self, unit: Unit) -> Any:
        """Does a unit (or a part of one) in this process; what comes out is for :meth:`keep`."""

    @abstractmethod
    def keep(self, unit: Unit, found: Any, seconds: float) -> Result | None:
        """Puts what was measured into the store; the result, or None while other parts of the unit are missing."""

    def recipe(self) -> Recipe | None:
        """How a worker elsewhere does units; None where only this process can."""
        return None

    def parts(self, unit: Unit, count: int) -> Sequence[Unit]:  # noqa: ARG002
        """The unit in at most ``count`` parts, asked for where there are too few units to keep all workers busy."""
        return (unit,)

    def order(self, unit: Unit) -> Mapping[str, Any]:
        """The unit as plain values, for a worker elsewhere."""
        raise NotImplementedError

    def home(self, unit: Unit) -> Hashable:  # noqa: ARG002
        """Units of one home are cheaper for a worker that has done others of that home."""
        return None

    def waits(self, unit: Unit, busy: Collection[Unit]) -> bool:  # noqa: ARG002
        """Whether the unit had better wait for one of those that are being done."""
        return False

    def told(self, unit: Unit, note: Any) -> None:
        """A worker's word on how far it is with a unit; None: the unit starts again."""

    def finished(self, unit: Unit, seconds: float) -> None:
        """A worker elsewhere has done the unit; called before :meth:`keep`."""

    def look(self) -> None:
        """Called a few times a second while workers compute; may raise to cancel."""


GONE = "the head of the Ray cluster is gone; what is finished is stored, and the same work goes on from there"


class GoneError(HeadlensError):
    """The engine has lost its connection for good; another one has to be made."""


class Engine(ABC):
    """Does the units of jobs.

    Attributes:
        name: as on the command line.
        remote: whether units are done elsewhere than in this process.
    """

    name: ClassVar[str]
    remote: ClassVar[bool] = False

    @property
    def alive(self) -> bool:
        """Whether it can still do work; False where another one has to be made."""
        return True

    @abstractmethod
    def run(self, job: Job[Unit, Result], units: Iterable[Unit]) -> Iterator[Result]:
        """Results of all units, those that the store has included, as they come.

        Raises:
            HeadlensError: no worker could do it.
            Cancelled: from the job; units that were kept stay kept.
        """

    def capacity(self) -> int:
        """Units that can be done at the same time, about."""
        return 1

    def workers(self) -> Sequence[WorkerState]:
        """Who has been at work so far; empty where it is this process."""
        return ()

    def close(self) -> None:  # noqa: B027 - there may be nothing to end
        """Ends all workers."""


_CURRENT: ContextVar[Engine | None] = ContextVar("headlens_engine", default=None)


def current() -> Engine:
    """The engine of this context: the local one unless :func:`using` says otherwise."""
    found = _CURRENT.get()
    if found is None:
        from headlens.engine.local import LocalEngine

        return LocalEngine()
    return found


@contextmanager
def using(engine: Engine) -> Iterator[Engine]:
    """Inside, work that is cut into units is done by ``engine``; in this thread only."""
    token = _CURRENT.set(engine)
    try:
        yield engine
    finally:
        _CURRENT.reset(token)
