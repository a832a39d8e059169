"""The workers of a Ray cluster that are ours: hired, greeted, given units, listened to, replaced."""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import ray
from ray.exceptions import RayError, RayTaskError

from headlens.engine import cluster
from headlens.engine.base import GONE, GoneError, Recipe, Standing, WorkerState
from headlens.engine.worker import Worker, versions
from headlens.errors import HeadlensError

LOOK_SECONDS = 0.3
"""So long is waited for something to happen before progress is reported and a wish to cancel noticed."""
START_SECONDS = 300.0
"""A worker has opened Python and torch within this time, or it is taken to be stuck."""
ROOM_SECONDS = 1.0
"""So often the cluster is asked for room."""
HEAD_SECONDS = 10.0
"""A head that takes no connection for so long is gone."""
PATIENCE_SECONDS = 30.0
"""So long a command without any worker waits for a machine to come back."""


@dataclass
class Hand:
    """One worker as the command sees it."""

    number: int
    actor: Any
    place: str = ""
    process: int = 0
    ready: bool = False
    gone: Standing | None = None
    done: int = 0
    job: int = 0
    homes: set[Hashable] = field(default_factory=set)
    since: float = field(default_factory=time.monotonic)


class Crew:
    """Workers of one size.

    Args:
        most: at most so many; None: as many as there is room for.
        memory: bytes of each.
        accelerator: whether each needs a GPU.
        before: a crew that has ended; numbers go on from it.
    """

    def __init__(self, most: int | None, memory: int, accelerator: bool, before: Crew | None = None) -> None:
        self.most, self.memory, self.accelerator = most, memory, accelerator
        self._worker: Any = ray.remote(Worker)
        self.hands: list[Hand] = []
        self.gone: list[Hand] = [] if before is None else [*before.gone, *before.hands]
        self.busy: dict[int, Any] = {}
        self._generators: dict[Any, Hand] = {}
        self._greetings: dict[Any, Hand] = {}
        self._job = 0
        self._recipe: tuple[str, Any] = ("", None)
        self._looked, self._room = -ROOM_SECONDS, 0
        self._checked = -ROOM_SECONDS
        self._empty_since: float | None = None
        self._failed_starts = 0

    def check(self) -> None:
        """Notices, before Ray does, that the cluster's head is gone: a minute later Ray would end this process.

        Raises:
            GoneError: it has not answered for a while.
        """
        now = time.monotonic()
        if now - self._checked < ROOM_SECONDS:
            return
        self._checked = now
        while not cluster.head_is_there():
            if time.monotonic() - now > HEAD_SECONDS:
                raise GoneError(GONE)
            time.sleep(LOOK_SECONDS)

    def abandon(self) -> None:
        """Forgets all workers without a word to the cluster, which is gone."""
        for hand in self.hands:
            hand.gone = "lost"
        self.gone += self.hands
        self.hands = []
        self.busy.clear()
        self._generators.clear()
        self._greetings.clear()

    def room(self) -> int:
        """Workers that the cluster can hold now, at most ``most``."""
        self.check()
        if time.monotonic() - self._looked >= ROOM_SECONDS:
            self._looked = time.monotonic()
            self._room = cluster.places(self.memory, self.accelerator)
        return self._room if self.most is None else min(self.most, self._room)

    def begin(self, number: int, recipe: Recipe) -> None:
        """The next units are those of job ``number``."""
        self._job, self._recipe = number, (recipe.kind, ray.put(dict(recipe.shared)))
        self._empty_since = None

    def fill(self, wanted: int) -> None:
        """Hires until there are ``wanted`` workers or the cluster is full.

        Raises:
            HeadlensError: nobody is left and no machine comes, or there never was room for one.
        """
        for hand in [hand for hand in self.hands if not hand.ready]:
            if time.monotonic() - hand.since > START_SECONDS:
                self._lose(hand)
        if len(self.hands) < wanted:
            for _ in range(min(wanted, self.room()) - len(self.hands)):
                self._hire()
        if any(hand.ready for hand in self.hands):
            self._empty_since = None
            return
        now = time.monotonic()
        self._empty_since = self._empty_since or now
        if now - self._empty_since > (START_SECONDS if self.hands else PATIENCE_SECONDS):
            need = "a GPU" if self.accelerator else f"a free core and {self.memory / 2**30:.1f} GB of memory"
            raise HeadlensError(
                f"no machine of the cluster has {need} for a worker; what is finished is stored, and the same command "
                "goes on there when the cluster has room"
            )

    def idle(self) -> list[Hand]:
        """Workers that have nothing to do."""
        return [hand for hand in self.hands if hand.ready and hand.number not in self.busy]

    def give(self, hand: Hand, unit: Any, order: Mapping[str, Any]) -> None:
        """Sends a unit; the job's recipe goes before its first one."""
        if hand.job != self._job:
            kind, shared = self._recipe
            hand.actor.prepare.remote(self._job, kind, shared)
            hand.job = self._job
            hand.homes.clear()
        self.busy[hand.number] = unit
        self._generators[hand.actor.do.remote(self._job, dict(order))] = hand

    def said(self) -> Iterator[tuple[Any, tuple[Any, ...]]]:
        """(unit, what its worker says): a note, what it found, or that the worker is lost; after a short wait."""
        pending = [*self._generators, *self._greetings]
        if not pending:
            time.sleep(LOOK_SECONDS)
            return
        ready, _ = ray.wait(pending, num_returns=1, timeout=LOOK_SECONDS)
        if ready:
            ready, _ = ray.wait(pending, num_returns=len(pending), timeout=0)
        for one in ready:
            if one in self._greetings:
                self._greet(one)
            elif one in self._generators:
                yield from self._hear(one)

    def _hear(self, generator: Any) -> Iterator[tuple[Any, tuple[Any, ...]]]:
        hand = self._generators[generator]
        unit = self.busy[hand.number]
        try:
            said: Any = ray.get(next(generator))
        except (RayError, StopIteration) as error:
            if isinstance(error, RayTaskError):  # our own code; everything else is the cluster's
                raise RuntimeError(f"a unit failed on a worker: {error}") from error
            self._lose(hand)
            yield unit, ("lost", hand.place)
            return
        if said[0] != "note":
            del self._generators[generator], self.busy[hand.number]
            hand.done += 1
        yield unit, said

    def _hire(self) -> None:
        resources = {"num_cpus": 0, "num_gpus": 1} if self.accelerator else {"num_cpus": 1}
        actor = self._worker.options(memory=self.memory or None, max_restarts=0, **resources).remote()
        hand = Hand(len(self.gone) + len(self.hands) + 1, actor)
        self.hands.append(hand)
        self._greetings[actor.hello.remote()] = hand

    def _greet(self, greeting: Any) -> None:
        """A worker has started: is it the same program?"""
        hand = self._greetings.pop(greeting)
        try:
            told: Any = ray.get(greeting)
        except RayError as error:
            self._lose(hand)
            self._failed_starts += 1
            if "No module named" in str(error):
                raise HeadlensError(
                    "a machine of the cluster cannot start a worker: HeadLens is not installed in its Python; "
                    "install the same version on all machines"
                ) from error
            if self._failed_starts >= 3:
                last = str(error).strip().splitlines()[-1]
                raise HeadlensError(
                    f"three workers of the cluster ended while they started, the last: {last}"
                ) from error
            return
        hand.place, hand.process = told["host"], told["process"]
        here = versions()
        for name, there in told["versions"].items():
            if there != here[name]:
                raise HeadlensError(
                    f"the worker on {hand.place} has {name} {there}, this command {here[name]}; "
                    "install the same versions on all machines"
                )
        hand.ready = True

    def _lose(self, hand: Hand, how: Standing = "lost") -> None:
        hand.gone = how
        self.hands.remove(hand)
        self.gone.append(hand)
        self.busy.pop(hand.number, None)
        for table in (self._generators, self._greetings):
            for key in [key for key, owner in table.items() if owner is hand]:
                del table[key]
        _kill(hand.actor)
        self._looked = -ROOM_SECONDS

    def stop_busy(self) -> None:
        """Ends the workers that are in the middle of a unit that nobody wants any more."""
        for hand in [hand for hand in self.hands if hand.number in self.busy]:
            self._lose(hand, "ended")

    def end(self) -> None:
        """Ends all workers."""
        for hand in list(self.hands):
            self._lose(hand, "ended")

    def states(self) -> Sequence[WorkerState]:
        """For those who watch."""
        hands = sorted([*self.gone, *self.hands], key=lambda hand: hand.number)
        return [WorkerState(hand.number, hand.place, self._standing(hand), hand.done) for hand in hands]

    def _standing(self, hand: Hand) -> Standing:
        if hand.gone is not None:
            return hand.gone
        return "starting" if not hand.ready else "working" if hand.number in self.busy else "ready"


def _kill(actor: Any) -> None:
    try:
        ray.kill(actor)
    except (RayError, ValueError):  # gone already, or the connection is
        return
