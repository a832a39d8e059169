"""``--engine``: what is refused, and what is said at the end. The cluster itself: ``tests/unit/engine``."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headlens.engine import LocalEngine, WorkerState, choose
from headlens.errors import HeadlensError

from .conftest import Cli, Result

COMMANDS = (
    ("importance", "--method", "ablation"),
    ("curve", "--method", "magnitude"),
    ("claims", "--only", "few-matter"),
)


def refused(result: Result, *told: str) -> None:
    (line,) = result.lines
    assert (result.code, result.out) == (2, ""), line
    assert line.startswith("error: ")
    for part in told:
        assert part in line


def command(name: str, *options: str, model: Path) -> tuple[object, ...]:
    return (name, model, *options)


@pytest.mark.parametrize("parts", COMMANDS[:2])
def test_an_address_where_no_cluster_is(cli: Cli, gpt2: Path, parts: tuple[str, ...]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    where = ("--engine", "ray", "--address", f"127.0.0.1:{port}")
    refused(
        cli(*command(*parts, model=gpt2), *where), f"no Ray cluster answers at 127.0.0.1:{port}", "ray start --head"
    )
    refused(cli("lab", "--steps", 2, *where), f"no Ray cluster answers at 127.0.0.1:{port}")


def test_what_does_not_go_together(cli: Cli, gpt2: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sweep = command("importance", "--method", "ablation", model=gpt2)
    refused(cli(*sweep, "--engine", "spark"), "--engine", "'spark'")
    refused(cli(*sweep, "--address", "a:1"), "are for --engine ray")
    refused(cli(*sweep, "--workers", 2), "are for --engine ray")
    refused(cli(*sweep, "--engine", "ray", "--address", "head"), "give HOST:PORT of the cluster's head")
    refused(cli(*sweep, "--engine", "ray", "--device-map", "auto"), "--device-map", "leave it out")
    monkeypatch.setattr(choose, "find_spec", lambda name: None)
    refused(cli(*sweep, "--engine", "ray"), "Ray, which is not installed; pip install -r requirements-cluster.txt")


def test_a_store_that_cannot_be_written_is_told_before_anything_is_opened(
    cli: Cli, gpt2: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object) -> None:
        raise AssertionError("the model was opened")

    monkeypatch.setattr("headlens.lens.open_model", never)
    monkeypatch.setenv("HEADLENS_STORE", "nosuch://bucket/results")
    for parts in COMMANDS[:2]:
        refused(cli(*command(*parts, model=gpt2)), "nosuch://bucket/results", "Protocol not known", "HEADLENS_STORE")
    monkeypatch.setenv("HEADLENS_STORE", f"file://{gpt2}/config.json")
    refused(
        cli(*command(*COMMANDS[0], model=gpt2)), "config.json (Not a directory)", "or set HEADLENS_STORE to another"
    )


class Workers(LocalEngine):
    """Looks like a cluster and computes in this process."""

    def __init__(self) -> None:
        self.done, self.closed = 0, False

    remote = True

    def run(self, job: Any, units: Any) -> Iterator[Any]:
        for found in super().run(job, units):
            self.done += 1
            yield found

    def workers(self) -> list[WorkerState]:
        many = [WorkerState(1, "one", "lost", 2), WorkerState(2, "two", "ready", self.done - 2)]
        return many if self.done else []

    def close(self) -> None:
        self.closed = True


def test_the_engine_does_the_units_and_is_closed(
    cli: Cli, gpt2: Path, texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Workers] = []

    def engine_for(name: str, address: str | None, workers: int | None) -> Workers:
        assert (name, address, workers) == ("ray", "head:1", 3)
        made.append(Workers())
        return made[-1]

    monkeypatch.setattr("headlens.cli.engine.engine_for", engine_for)
    there = ("--engine", "ray", "--address", "head:1", "--workers", 3)
    sweep = ("importance", gpt2, "--method", "ablation", "--data", texts)
    whole = cli(*sweep, *there, "--out", tmp_path / "a.csv", "--json")
    assert whole.code == 0, whole.err
    told = "6 parts of the work by 2 workers (1 on one, 1 on two); 1 lost, whose parts others did"
    assert told in whole.lines
    assert cli(*sweep, *there, "--out", tmp_path / "b.csv", "--json").json["cached"] == 5
    nothing = cli("importance", gpt2, "--method", "magnitude", *there)
    assert "note: --engine ray had nothing to do: all is stored already, or this work is not cut into units" in (
        nothing.lines
    )
    assert [engine.done for engine in made] == [6, 6, 0]  # baseline and layers
    failed = cli(*sweep[:4], "--data", tmp_path / "none.txt", *there)
    assert failed.code == 2
    assert all(engine.closed for engine in made)


def test_mistakes_have_the_class_that_the_command_line_tells() -> None:
    with pytest.raises(HeadlensError):
        choose.engine_for("ray", "head")
