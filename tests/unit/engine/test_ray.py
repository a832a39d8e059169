"""Work on a real Ray cluster of two nodes equals that of this process to the bit, also when workers are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from headlens.data.encode import EncodedData, encode
from headlens.data.select import load_data
from headlens.engine import using
from headlens.engine.ray import RayEngine
from headlens.errors import Cancelled, HeadlensError
from headlens.heads import HeadSet
from headlens.lens import Lens, open_model
from headlens.metrics import METRICS
from headlens.store import Store
from headlens.sweep import Sweep, SweepSpec

from .conftest import TwoNodes

MODEL = "zoo-gpt2"
Place = tuple[str, int]


class CountingStore(Store):
    """Counts what is written."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.puts: Counter[str] = Counter()

    def put(self, key: str, arrays: Mapping[str, np.ndarray], meta: Mapping[str, Any] | None = None) -> None:
        self.puts[key] += 1
        super().put(key, arrays, meta)


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """As workers have: bits depend on the number of threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def lens() -> Lens:
    return open_model(MODEL)


@pytest.fixture(scope="module")
def data(lens: Lens) -> EncodedData:
    from headlens.data.select import default_for

    return encode(lens, load_data(default_for(lens), task=lens.task, limit=16), max_tokens=48)


@pytest.fixture(scope="module")
def engine(two_nodes: TwoNodes) -> Iterator[RayEngine]:
    """Kept for all tests, as for a whole command: its workers open the model once."""
    engine = RayEngine(two_nodes.address)
    yield engine
    engine.close()


def swept(
    lens: Lens, data: EncodedData, spec: SweepSpec, store: Store | None = None, watch: Callable[..., None] | None = None
) -> dict[Place, np.ndarray]:
    sweep = Sweep(lens, data, spec, batch_size=2, store=store, on_progress=watch)
    return {(unit.site, unit.layer): unit.effect for unit in sweep.units()}


def assert_same(found: Mapping[Place, np.ndarray], wanted: Mapping[Place, np.ndarray]) -> None:
    assert found.keys() == wanted.keys()
    for place, effect in wanted.items():
        assert found[place].tobytes() == effect.tobytes(), place


LOSS = SweepSpec(METRICS["loss"])


HEADLESS = """
import threading, time
import psutil
from headlens.engine import crew, engine_for
from headlens.errors import HeadlensError
from tests.unit.engine.test_engine import Squares

crew.HEAD_SECONDS = 1.0
made = []
thread = threading.Thread(target=lambda: made.append(engine_for("ray", None, 1)))
thread.start()
thread.join()
time.sleep(1)
(engine,) = made
job = Squares()
job.recipe = lambda: crew.Recipe("nothing")
(head,) = [process for process in psutil.Process().children() if process.name() == "gcs_server"]
head.kill()
head.wait()
try:
    list(engine.run(job, [1]))
except HeadlensError as error:
    print(error)
time.sleep(7)
print(engine.alive)
engine.close()
"""


def test_a_head_outlives_the_thread_that_started_it_and_does_not_take_the_process_with_it() -> None:
    """Linux ends children with the thread that started them, as a server's job is; and Ray ends a process when its
    cluster's head is gone for a minute, here for six seconds."""
    environment = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    environment |= {"RAY_gcs_rpc_server_reconnect_timeout_s": "6", "PYTHONPATH": str(Path(__file__).parents[3])}
    command = [sys.executable, "-c", HEADLESS]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=150, env=environment)
    told = "the head of the Ray cluster is gone; what is finished is stored, and the same work goes on from there"
    assert (done.returncode, done.stdout.splitlines()) == (0, [told, "False"]), done.stderr[-800:]


def test_an_idle_engine_leaves_a_cluster_whose_head_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    from headlens.engine import cluster
    from headlens.engine import ray as ray_engine

    left = threading.Event()
    monkeypatch.setattr(ray_engine, "WATCH_SECONDS", 0.01)
    monkeypatch.setattr(cluster, "connect", lambda *_: True)
    monkeypatch.setattr(cluster, "head_is_there", lambda: False)
    monkeypatch.setattr(cluster, "disconnect", left.set)
    idle = RayEngine()
    assert left.wait(30)
    assert not idle.alive
    idle.close()


def test_a_cluster_that_asks_for_a_token_says_so(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Tried by hand with `ray start --head` of Ray 2.60, which asks where the machine has a token."""
    from ray import _raylet
    from ray.exceptions import AuthenticationError

    from headlens.engine import cluster

    def refuse(address: str) -> None:
        os.write(2, b"noise")
        raise AuthenticationError(f"no token for {address}")

    def fail(address: str) -> None:
        raise RuntimeError(address)

    monkeypatch.setattr(_raylet, "GcsClient", refuse)
    with pytest.raises(HeadlensError, match="the Ray cluster at head:1 asks for a token: set RAY_AUTH_MODE=token"):
        cluster.check_admission("head:1")
    os.write(2, b"heard")
    assert capfd.readouterr().err == "heard"
    monkeypatch.setattr(_raylet, "GcsClient", fail)
    cluster.check_admission("head:1")  # what else is wrong, connecting says


@pytest.mark.parametrize(("metric", "ablation", "unit"), [("loss", "zero", "head"), ("drift", "mean", "kv")])
def test_a_sweep_on_two_nodes(
    engine: RayEngine, lens: Lens, data: EncodedData, metric: str, ablation: Any, unit: Any, tmp_path: Path
) -> None:
    spec = SweepSpec(METRICS[metric], ablation, unit)
    wanted = swept(lens, data, spec)
    reports: list[tuple[int, int]] = []
    store = CountingStore(tmp_path)
    with using(engine):
        found = swept(lens, data, spec, store, lambda *at: reports.append(at))
    assert_same(found, wanted)
    assert set(store.puts.values()) == {1}
    assert len(store.puts) == len(wanted) + 1  # and the baseline
    assert reports[-1][0] == reports[-1][1]
    workers = engine.workers()
    assert [one.standing for one in workers] == ["ready", "ready"]
    assert all(one.done > 0 and one.place for one in workers)
    with using(engine):  # all from the store, nothing is sent
        assert_same(swept(lens, data, spec, Store(tmp_path)), wanted)
    assert engine.workers() == workers


def test_head_sets_and_a_sweep_with_heads_off(engine: RayEngine, lens: Lens, data: EncodedData, tmp_path: Path) -> None:
    from headlens.pruning.measure import SetMeasure
    from headlens.pruning.rescore import SwitchedLens

    sets = [lens.topology.parse(text) for text in ("L0H0", "L3", "L0H1,L1H0")]
    wanted = SetMeasure(lens, data, metric="loss", ablation="mean").sums(sets)
    measure = SetMeasure(lens, data, metric="loss", ablation="mean", store=Store(tmp_path))
    switched = SwitchedLens(lens, sets[0])
    expected = swept(switched, data, LOSS)
    with using(engine):
        found = measure.sums(sets)
        again = SetMeasure(lens, data, metric="loss", ablation="mean", store=Store(tmp_path))
        assert again.sums(sets).keys() == found.keys()
        assert_same(swept(switched, data, LOSS), expected)
    assert again.cached == len(sets) + 1
    assert found.keys() == wanted.keys() == {HeadSet(), *sets}
    for off, arrays in wanted.items():
        assert {name: values.tobytes() for name, values in found[off].items()} == {
            name: values.tobytes() for name, values in arrays.items()
        }
    assert measure.passes == len(sets) + 1
    assert measure.seconds > 0


def test_runs_of_the_lab(engine: RayEngine, tmp_path: Path) -> None:
    from headlens.lab.experiment import run
    from headlens.lab.pool import Event, run_all
    from headlens.lab.specs import After, Architecture, RunSpec, Task, Training

    scratch = RunSpec(Task((1, 2), length=8), Architecture(2), Training(6, batch=4))
    after = replace(scratch, after=After("pruned", 1, 4, 1e-3))
    wanted = [run(spec, Store(tmp_path / "here")) for spec in (scratch, after)]
    events: list[Event] = []
    store = Store(tmp_path / "there")
    with using(engine):
        found = run_all([after, scratch], store, on_event=events.append)[::-1]
    assert [replace(one, seconds=0.0) for one in found] == [replace(one, seconds=0.0) for one in wanted]
    assert {event.spec for event in events if event.result is not None} == {scratch, after}
    assert store.meta(scratch.key(_versions())) is not None


def _versions() -> Mapping[str, str]:
    from headlens.lab.results import versions

    return versions()


def test_what_a_worker_refuses_is_told_in_one_line(
    engine: RayEngine, lens: Lens, data: EncodedData, monkeypatch: pytest.MonkeyPatch
) -> None:
    from headlens import sweep_worker
    from headlens.engine import recipe

    monkeypatch.setattr(
        sweep_worker, "model_recipe", lambda lens: {**(recipe.model_recipe(lens) or {}), "fingerprint": "f" * 64}
    )
    with using(engine), pytest.raises(HeadlensError, match="a worker of the cluster: zoo-gpt2 has other weights"):
        swept(lens, data, LOSS)


def test_a_killed_worker_has_its_unit_done_by_another(
    engine: RayEngine, lens: Lens, data: EncodedData, tmp_path: Path
) -> None:
    wanted = swept(lens, data, LOSS)
    store = CountingStore(tmp_path)
    killed: list[int] = []

    def watch(done: int, total: int) -> None:
        crew = engine._crew
        if crew is not None and len(store.puts) > 1 and crew.busy and not killed:
            (hand, *_) = [hand for hand in crew.hands if hand.number in crew.busy]
            killed.append(hand.process)
            os.kill(hand.process, signal.SIGKILL)

    lost = sum(one.standing == "lost" for one in engine.workers())
    with using(engine):
        found = swept(lens, data, LOSS, store, watch)
    assert killed
    assert_same(found, wanted)
    assert set(store.puts.values()) == {1}
    assert sum(one.standing == "lost" for one in engine.workers()) == lost + 1


def test_cancelled_and_gone_on_with_here(engine: RayEngine, lens: Lens, data: EncodedData, tmp_path: Path) -> None:
    wanted = swept(lens, data, LOSS)
    store = CountingStore(tmp_path)

    def cancel(done: int, total: int) -> None:
        if len(store.puts) > 1:  # the baseline and a layer
            raise Cancelled

    with using(engine), pytest.raises(Cancelled):
        swept(lens, data, LOSS, store, cancel)
    kept = len(store.puts) - 1
    assert 1 <= kept < len(wanted)
    assert not any(one.standing == "working" for one in engine.workers())
    sweep = Sweep(lens, data, LOSS, batch_size=2, store=Store(tmp_path))
    units = list(sweep.units())
    assert sum(unit.cached for unit in units) == kept
    assert_same({(unit.site, unit.layer): unit.effect for unit in units}, wanted)


def test_a_killed_node_loses_nothing(
    engine: RayEngine, two_nodes: TwoNodes, lens: Lens, data: EncodedData, tmp_path: Path
) -> None:
    wanted = swept(lens, data, LOSS)
    store = CountingStore(tmp_path)
    gone: list[object] = []

    def watch(done: int, total: int) -> None:
        if len(store.puts) > 1 and not gone:
            gone.append(two_nodes.second)
            two_nodes.kill(two_nodes.second)

    with using(engine):
        found = swept(lens, data, LOSS, store, watch)
    assert gone
    assert_same(found, wanted)
    assert set(store.puts.values()) == {1}


def test_a_worker_of_another_version_is_refused(
    engine: RayEngine, two_nodes: TwoNodes, lens: Lens, data: EncodedData, tmp_path: Path
) -> None:
    about = tmp_path / "torch-0.1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: torch\nVersion: 0.1\n")
    two_nodes.add(env_vars={"PYTHONPATH": str(tmp_path)})
    here = torch.__version__.partition("+")[0]

    def until_it_has_started() -> None:
        for _ in range(20):
            swept(lens, data, LOSS)

    with using(engine), pytest.raises(HeadlensError, match=f"has torch 0.1, this command {here}; install the same"):
        until_it_has_started()
