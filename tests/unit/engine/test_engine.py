"""The engines' interface without a cluster: choosing one, the local one, what workers are sent and what they answer."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from headlens.engine import Job, LocalEngine, choose, current, engine_for, using
from headlens.engine.recipe import model_recipe, open_lens, pack_data, unpack_data
from headlens.engine.worker import KINDS, Worker
from headlens.errors import HeadlensError
from headlens.metrics import METRICS
from headlens.store import Store
from headlens.sweep import Part, Sweep, SweepSpec
from tests.unit.helpers import lens_for, random_data


class Squares(Job[int, int]):
    """Units whose results are obvious."""

    def __init__(self, known: Mapping[int, int] | None = None) -> None:
        self.stored = dict(known or {})
        self.measured: list[int] = []

    def known(self, unit: int) -> int | None:
        return self.stored.get(unit)

    def measure(self, unit: int) -> int:
        self.measured.append(unit)
        return unit * unit

    def keep(self, unit: int, found: int, seconds: float) -> int:
        assert seconds >= 0
        self.stored[unit] = found
        return found


def test_the_local_engine_takes_what_is_known_and_does_the_rest_in_order() -> None:
    job = Squares({2: -4})
    assert list(LocalEngine().run(job, [3, 2, 1])) == [9, -4, 1]
    assert job.measured == [3, 1]
    assert list(LocalEngine().run(job, [3])) == [9]
    assert job.measured == [3, 1]


def test_the_local_engine_asks_the_store_only_when_a_unit_is_due() -> None:
    """Two processes that share a store take each other's units while they are at work."""
    job = Squares()
    results = LocalEngine().run(job, [1, 2])
    assert next(results) == 1
    job.stored[2] = -2  # somebody else has done it meanwhile
    assert next(results) == -2
    assert job.measured == [1]


def test_an_engine_holds_for_a_block_and_a_thread() -> None:
    outer, inner = LocalEngine(), LocalEngine()
    elsewhere: list[object] = []
    assert current() is not outer
    with using(outer):
        with using(inner):
            assert current() is inner
        assert current() is outer
        thread = threading.Thread(target=lambda: elsewhere.append(current()))
        thread.start()
        thread.join()
        with pytest.raises(KeyError), using(inner):
            raise KeyError
        assert current() is outer
    assert current() is not outer
    assert elsewhere[0] is not outer


def test_bad_choices_are_told_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    assert engine_for("local").name == "local"
    with pytest.raises(HeadlensError, match="unknown engine 'spark'; choose one of local, ray"):
        engine_for("spark")
    for more in ({"address": "a:1"}, {"workers": 2}):
        with pytest.raises(HeadlensError, match="are for --engine ray"):
            engine_for("local", **more)  # type: ignore[arg-type]
    monkeypatch.setattr(choose, "find_spec", lambda name: None)
    assert not choose.is_installed()
    with pytest.raises(HeadlensError, match=r"not installed; pip install -r requirements-cluster\.txt"):
        engine_for("ray")


# Addresses


@contextmanager
def listener(answer: bytes | None) -> Iterator[int]:
    """Something that listens on a free port and says ``answer`` (None: nothing) to whoever comes."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        held: list[socket.socket] = []

        def serve() -> None:
            connection, _ = server.accept()
            held.append(connection)
            if answer is not None:
                connection.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            thread.join(5)
            for connection in held:
                connection.close()


@pytest.mark.parametrize("address", ["nowhere", "ray://head:10001", "head:", ":6379", "head:0", "head:99999", "head:x"])
def test_what_is_no_address(address: str) -> None:
    from headlens.engine.cluster import check_address

    with pytest.raises(HeadlensError, match="give HOST:PORT of the cluster's head"):
        check_address(address)


def test_nobody_and_somebody_else_at_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    from headlens.engine import cluster

    monkeypatch.setattr(cluster, "ANSWER_SECONDS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as server:
        free = server.getsockname()[1]
    with pytest.raises(HeadlensError, match=f"no Ray cluster answers at 127.0.0.1:{free} .*refused"):
        cluster.check_address(f"127.0.0.1:{free}")
    with listener(None) as port, pytest.raises(HeadlensError, match="no answer"):
        cluster.check_address(f"127.0.0.1:{port}")
    with listener(b"HTTP/1.1 400 Bad Request\r\n") as port, pytest.raises(HeadlensError, match="is no Ray cluster"):
        cluster.check_address(f"127.0.0.1:{port}")
    with listener(bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])) as port:
        cluster.check_address(f"127.0.0.1:{port}")


# What is sent


@pytest.mark.parametrize("kind", ["gpt2", "t5", "bert-bare"])
def test_examples_arrive_as_they_were(kind: str) -> None:
    lens, _ = lens_for(kind)
    data = random_data(kind)
    packed = pack_data(data)
    assert isinstance(packed["tensors"], bytes)
    again = unpack_data(packed, lens)
    assert (again.hash, again.name, again.split, again.pad) == (data.hash, data.name, data.split, data.pad)
    for one, other in zip(data.examples, again.examples, strict=True):
        assert one.inputs.keys() == other.inputs.keys()
        assert all(torch.equal(value, other.inputs[name]) for name, value in one.inputs.items())
    other = pack_data(replace(data, examples=data.examples[::-1]))
    with pytest.raises(HeadlensError, match="arrived changed"):
        unpack_data({**packed, "tensors": other["tensors"]}, lens)


def test_a_model_is_sent_by_name_and_checked_by_its_weights() -> None:
    from headlens.lens import open_model
    from headlens.pruning.rescore import SwitchedLens

    lens = open_model("zoo-gpt2-small")
    recipe = model_recipe(lens)
    assert recipe is not None
    assert (recipe["model"], recipe["dtype"], recipe["device"]) == ("zoo-gpt2-small", "float32", "cpu")
    opened: dict[Any, Any] = {}
    first = open_lens(recipe, opened)
    assert open_lens(recipe, opened) is first
    with pytest.raises(HeadlensError, match="zoo-gpt2-small has other weights there"):
        open_lens({**recipe, "fingerprint": "0" * 64}, opened)
    switched = SwitchedLens(lens, lens.topology.parse("L0H1"))
    sent = model_recipe(switched)
    assert sent is not None
    assert open_lens(sent, opened).fingerprint == switched.fingerprint != first.fingerprint
    in_memory, _ = lens_for("gpt2")
    assert model_recipe(in_memory) is None


# Parts


@pytest.mark.parametrize("ablation", ["zero", "mean", "resample"])
@pytest.mark.parametrize("kind", ["llama", "t5"])
def test_parts_in_any_order_make_the_same_bits_as_the_whole(kind: str, ablation: Any, tmp_path: Path) -> None:
    lens, _ = lens_for(kind)
    data = random_data(kind)
    spec = SweepSpec(METRICS["loss"], ablation)
    whole = {(u.site, u.layer): u.effect for u in Sweep(lens, data, spec, batch_size=1).units()}
    sweep = Sweep(lens, data, spec, batch_size=1, store=Store(tmp_path))
    baseline = Part("", 0)
    places = [Part(site, layer) for site, layer in whole]
    parts = [part for place in [baseline, *places] for part in sweep.parts(place, 3)]
    assert len(parts) == 3 * len([baseline, *places])
    rows = [row for part in sweep.parts(places[0], 3) for row in sweep.rows(part)]
    assert sorted(rows) == list(range(len(data)))
    found = {}
    order = [*parts[:3], *np.random.default_rng(0).permutation(len(parts) - 3) + 3]
    for index in order:
        part = index if isinstance(index, Part) else parts[int(index)]
        kept = sweep.keep(part, sweep.measure(part), 0.0)
        if kept is not None and part.site:
            found[part.site, part.layer] = kept.effect  # type: ignore[union-attr]
    assert found.keys() == whole.keys()
    for place, effect in whole.items():
        np.testing.assert_array_equal(found[place], effect)
    again = Sweep(lens, data, spec, batch_size=1, store=Store(tmp_path))
    assert all(unit.cached for unit in again.units())


# What a worker answers


class Counting:
    """Does units for the test below."""

    def __init__(self, shared: Mapping[str, Any], opened: dict[Any, Any]) -> None:
        if shared["limit"] < 0:
            raise HeadlensError("no such limit")
        self.limit = shared["limit"]

    def do(self, order: Mapping[str, Any], note: Any) -> int:
        if order["n"] > self.limit:
            raise HeadlensError(f"{order['n']} is over the limit")
        if order["n"] == 0:
            raise ZeroDivisionError("nothing")
        threading.Event().wait(0.4)
        for step in range(order["n"]):
            note(step)  # all at once
        threading.Event().wait(0.6)
        return order["n"] * 10


def test_a_worker_tells_what_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys
    from types import ModuleType

    module = ModuleType("counting_for_a_test")
    module.Counting = Counting  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(KINDS, "counting", f"{module.__name__}:Counting")
    threads = torch.get_num_threads()
    worker = Worker()
    try:
        assert list(worker.do(1, {"n": 1})) == [("failed", "the job is not ready")]
        worker.prepare(1, "counting", {"limit": -1})
        assert list(worker.do(1, {"n": 1})) == [("failed", "no such limit")]
        worker.prepare(2, "counting", {"limit": 5})
        said = list(worker.do(2, {"n": 4}))
        notes = [note for kind, note, *_ in said if kind == "note"]
        assert notes in ([3], [0, 3])  # only the last of those that come at once
        assert said[-1][:2] == ("done", 40)
        assert 1.0 <= said[-1][2] < 30
        assert list(worker.do(2, {"n": 6})) == [("failed", "6 is over the limit")]
        ((kind, trace),) = worker.do(2, {"n": 0})
        assert kind == "bug"
        assert "ZeroDivisionError: nothing" in trace
    finally:
        torch.set_num_threads(threads)
