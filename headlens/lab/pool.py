"""Many runs at once: one process and one thread a run, cancellable at any moment, nothing left behind."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import headlens
from headlens.engine.base import current
from headlens.errors import HeadlensError
from headlens.lab.estimate import cores, probe_spec, rough_step_seconds, total_seconds
from headlens.lab.results import RunResult, stored
from headlens.lab.schedule import Event, Schedule, is_at_work
from headlens.server import limits

if TYPE_CHECKING:
    from headlens.lab.specs import RunSpec
    from headlens.store import Store

__all__ = ["Event", "run_all"]

LOOK_SECONDS = 0.3
"""So often progress is reported while no event comes, so that a wish to cancel is noticed."""
HOPEFUL = 0.25
"""What is too long even on a machine four times as fast as usual needs no measuring."""


def run_all(
    specs: Sequence[RunSpec],
    store: Store,
    *,
    workers: int | None = None,
    resume: bool = True,
    on_progress: Callable[[int, int], None] | None = None,
    on_event: Callable[[Event], None] | None = None,
    confirm: Callable[[float], None] | None = None,
) -> list[RunResult]:
    """Does all runs and returns their results in the order of ``specs``.

    Args:
        specs: what to run; equal ones are done once.
        store: every finished run is kept here at once, so that a run that was broken off is taken up again.
        workers: processes; None for one on each core. The workers of a cluster, where the current engine has one,
            are the engine's own.
        resume: whether stored results are taken.
        on_progress: called with (steps done, steps in all), also while nothing happens; may raise ``Cancelled``.
        on_event: called with every point of every learning curve and with every result.
        confirm: called with the estimated seconds before anything is trained, first with the least that one can hope
            for, then with what this machine's speed says; raises to prevent it.

    Raises:
        Cancelled: from ``on_progress``; all processes have ended by then.
        LimitError: training is off here.
        HeadlensError: a run could not be done.
    """
    limits.current().check_training()
    todo = list(dict.fromkeys(specs))
    schedule = Schedule(todo, on_progress, on_event)
    if resume:
        for spec in todo:
            if (known := stored(spec, store)) is not None:
                schedule.finish(spec, known)
    waiting = [spec for spec in todo if spec not in schedule.results]
    waiting.sort(key=lambda spec: spec.after is not None)  # those that start from another run come behind all others
    engine = current()
    if engine.remote:
        from headlens.lab.elsewhere import LabJob, run_elsewhere

        run_elsewhere(engine, waiting, LabJob(store, schedule, resume), confirm)
        return [schedule.results[spec] for spec in specs]
    number = min(len(waiting), workers or cores())
    if confirm is not None:
        confirm(total_seconds(waiting, number, HOPEFUL))
    with _workers(number, store.where, resume) as team:
        if waiting and confirm is not None:
            confirm(total_seconds(waiting, number, _slowness(waiting, team, schedule)))
        _work_through(waiting, team, schedule)
    return [schedule.results[spec] for spec in specs]


def _slowness(waiting: list[RunSpec], team: _Team, schedule: Schedule) -> float:
    """Measured over rough seconds of a step."""
    probe = probe_spec(waiting)
    team.give(0, probe, "probe")
    while True:
        schedule.report()
        for _, event in team.events():
            team.check(event)
            if event["event"] == "probed":
                del team.busy[0]
                return event["seconds"] / rough_step_seconds(probe)


def _work_through(waiting: list[RunSpec], team: _Team, schedule: Schedule) -> None:
    schedule.report()
    while waiting or team.busy:
        for worker in team.idle():
            spec = next((spec for spec in waiting if not is_at_work(spec.parent, team.busy.values())), None)
            if spec is not None:
                waiting.remove(spec)
                team.give(worker, spec)
        for worker, event in team.events():
            team.check(event)
            spec = team.busy[worker]
            if event["event"] == "step":
                schedule.steps[spec] = event["step"]
            elif event["event"] == "point":
                schedule.point(spec, event["step"], event["bits"])
            elif event["event"] == "done":
                del team.busy[worker]
                schedule.finish(spec, RunResult.from_dict(event["result"]))
        schedule.report()


class _Team:
    """Worker processes and a thread for each that listens to it."""

    def __init__(self, store: str, resume: bool) -> None:
        self.store, self.resume = store, resume
        self.processes: list[subprocess.Popen[str]] = []
        self.listeners: list[threading.Thread] = []
        self.busy: dict[int, RunSpec] = {}
        self.inbox: queue.Queue[tuple[int, dict[str, Any]]] = queue.Queue()

    def start_one(self) -> None:
        above = str(Path(headlens.__file__).resolve().parent.parent)
        paths = os.pathsep.join(filter(None, (above, os.environ.get("PYTHONPATH", ""))))
        one_thread = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
        process = subprocess.Popen(
            [sys.executable, "-m", "headlens.lab.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
            env={**os.environ, **one_thread, "PYTHONPATH": paths},
        )
        assert process.stdout is not None
        listener = threading.Thread(target=self._listen, args=(len(self.processes), process.stdout), daemon=True)
        self.processes.append(process)
        self.listeners.append(listener)
        listener.start()

    def _listen(self, worker: int, lines: IO[str]) -> None:
        with suppress(ValueError, OSError):  # closed while it was read
            for line in lines:
                self.inbox.put((worker, json.loads(line)))
        self.inbox.put((worker, {"event": "ended"}))

    def idle(self) -> list[int]:
        return [worker for worker in range(len(self.processes)) if worker not in self.busy]

    @staticmethod
    def check(event: dict[str, Any]) -> None:
        """Raises what a worker tells of going wrong."""
        if event["event"] == "failed":
            raise HeadlensError(event["message"])
        if event["event"] == "bug":
            raise RuntimeError(f"a run of the lab failed: {event['message']}")
        if event["event"] == "ended":
            raise HeadlensError("a run's process was ended from outside (short of memory?); try fewer at once")

    def give(self, worker: int, spec: RunSpec, what: str = "run") -> None:
        self.busy[worker] = spec
        stdin = self.processes[worker].stdin
        assert stdin is not None
        order = {"do": what, "spec": spec.to_dict(), "store": self.store, "resume": self.resume}
        with suppress(BrokenPipeError):  # its end is told by the listener
            stdin.write(json.dumps(order) + "\n")
            stdin.flush()

    def events(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """What has happened, after a short wait for something to happen."""
        with suppress(queue.Empty):
            yield self.inbox.get(timeout=LOOK_SECONDS)
            while True:
                yield self.inbox.get_nowait()

    def end(self) -> None:
        for process in self.processes:
            process.kill()
        for process, listener in zip(self.processes, self.listeners, strict=True):
            process.wait()
            listener.join()
            for pipe in (process.stdin, process.stdout):
                with suppress(OSError):
                    assert pipe is not None
                    pipe.close()


@contextmanager
def _workers(number: int, store: str, resume: bool) -> Iterator[_Team]:
    team = _Team(store, resume)
    try:
        for _ in range(number):
            team.start_one()
        yield team
    finally:
        team.end()
