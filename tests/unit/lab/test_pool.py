"""The pool: the same results as in this process, nothing twice, nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from headlens.errors import Cancelled, HeadlensError
from headlens.lab.experiment import run
from headlens.lab.pool import Event, run_all
from headlens.lab.specs import After, Architecture, RunSpec, Task, Training
from headlens.store import Store

ROOT = Path(__file__).resolve().parents[3]
TASK = Task((1, 2), length=8)
SPEC = RunSpec(TASK, Architecture(3, width=32, mlp=32), Training(30, batch=8), prune_to=2)
LONG = replace(SPEC, training=Training(200_000, batch=8))


def seeded(spec: RunSpec, number: int) -> list[RunSpec]:
    return [replace(spec, training=replace(spec.training, seed=seed)) for seed in range(number)]


def workers() -> list[psutil.Process]:
    return [child for child in psutil.Process().children() if "headlens.lab.worker" in child.cmdline()]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def test_processes_give_the_bits_of_this_process_in_order(store: Store) -> None:
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        further = replace(SPEC, prune_to=None, after=After("pruned", 2, 5, 1e-3))
        specs = [further, *seeded(SPEC, 2), SPEC]
        events: list[Event] = []
        progress: list[tuple[int, int]] = []
        asked: list[float] = []
        results = run_all(
            specs,
            store,
            workers=2,
            on_progress=lambda done, total: progress.append((done, total)),
            on_event=events.append,
            confirm=asked.append,
        )
        for spec, result in zip(specs, results, strict=True):
            expected = run(spec, None)
            assert replace(result, seconds=0) == replace(expected, seconds=0)
    finally:
        torch.set_num_threads(before)
    assert progress[-1] == (65, 65)  # two of 30 steps and one of 5: the one asked for twice is done once
    assert len(asked) == 2  # a guess, then what was measured
    assert all(0 < seconds < 60 for seconds in asked)
    assert [event.spec for event in events if event.result is not None].count(SPEC) == 1
    assert any(event.step == 10 and event.spec == SPEC for event in events)
    assert not workers()
    # once more: all from the store, without a process
    again = run_all(specs, store, workers=2, on_event=events.append)
    assert again == results


def test_cancelling_ends_every_process_at_once(store: Store) -> None:
    seen: list[int] = []

    def progress(done: int, total: int) -> None:
        seen.append(len(workers()))
        if done > 0:
            raise Cancelled

    with pytest.raises(Cancelled):
        run_all(seeded(LONG, 2), store, workers=1, on_progress=progress)
    assert max(seen) == 1
    assert not workers()


def test_work_that_is_too_long_is_not_begun(store: Store) -> None:
    def confirm(seconds: float) -> None:
        raise HeadlensError(f"{seconds:.0f}")

    with pytest.raises(HeadlensError):
        run_all([LONG], store, confirm=confirm, on_progress=lambda _done, _total: pytest.fail("it was begun"))


def test_a_killed_process_is_one_line(store: Store) -> None:
    def progress(done: int, total: int) -> None:
        for process in workers() if done else ():
            os.kill(process.pid, signal.SIGKILL)

    with pytest.raises(HeadlensError, match="ended from outside"):
        run_all([LONG], store, on_progress=progress)
    assert not workers()


def test_workers_end_when_their_parent_is_killed(store: Store) -> None:
    """A parent that is killed cannot tidy up; its workers notice within a moment."""
    script = (
        "import sys; from pathlib import Path; from headlens.lab.pool import run_all\n"
        "from headlens.lab.specs import Architecture, RunSpec, Training, Task; from headlens.store import Store\n"
        "spec = RunSpec(Task((1,), length=4), Architecture(1), Training(1_000_000))\n"
        "run_all([spec], Store(Path(sys.argv[1])), on_progress=lambda done, _: done and print(done, flush=True))\n"
    )
    command = [sys.executable, "-c", script, str(store.root)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as parent:
        assert parent.stdout is not None
        assert int(parent.stdout.readline()) > 0
        (worker,) = psutil.Process(parent.pid).children()
        parent.kill()
    assert psutil.wait_procs([worker], timeout=30)[1] == []
