"""Stopped, killed and crowded: what is finished stays, and the same command goes on from there."""

from __future__ import annotations

import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from .conftest import Cli, Result, finish, start

SLOW = """
import time
from headlens.store import Store
put = Store.put
def slow_put(self, *arguments):
    time.sleep(0.5)
    put(self, *arguments)
Store.put = slow_put
"""
"""Makes every unit take half a second, so that a signal surely arrives between two of them."""

UNITS = 5


def _command(model: Path, texts: Path, out: Path) -> tuple[object, ...]:
    return ("importance", model, "--method", "ablation", "--data", texts, "--out", out, "--json")


def _wait_for_entries(cache: Path, count: int, process: subprocess.Popen[str]) -> None:
    limit = time.monotonic() + 240
    while len(list((cache / "store").glob("??/*[!p]"))) < count:  # not the .tmp ones
        assert process.poll() is None, finish(process).err
        assert time.monotonic() < limit
        time.sleep(0.02)


def _stop(model: Path, texts: Path, out: Path, cache: Path, how: signal.Signals) -> Result:
    process = start(*_command(model, texts, out), script=SLOW)
    _wait_for_entries(cache, 3, process)  # the baseline and two units
    process.send_signal(how)
    return finish(process)


@pytest.fixture
def uninterrupted(cli: Cli, gpt2: Path, texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What a run gives that nobody disturbs, with a store of its own."""
    out = tmp_path / "whole.csv"
    with monkeypatch.context() as patch:
        patch.setenv("HEADLENS_CACHE", str(tmp_path / "other"))
        result = cli(*_command(gpt2, texts, out)).json
    return {"csv": out.read_bytes(), "reliability": result["reliability"]}


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_stopped_sweep_goes_on(
    cli: Cli,
    gpt2: Path,
    texts: Path,
    tmp_path: Path,
    cache: Path,
    uninterrupted: dict[str, Any],
    how: signal.Signals,
) -> None:
    out = tmp_path / "s.csv"
    stopped = _stop(gpt2, texts, out, cache, how)
    assert stopped.out == ""
    assert not out.exists()
    stored = len(list((cache / "store").glob("??/*[!p]"))) - 1
    assert 2 <= stored < UNITS
    if how == signal.SIGKILL:
        assert stopped.code == -signal.SIGKILL
    else:
        assert stopped.code == 130
        (line,) = stopped.lines
        told = re.fullmatch(r"cancelled: (\d) of 5 units are stored; the same command resumes there", line)
        assert told is not None, line
        assert int(told[1]) == stored
    resumed = cli(*_command(gpt2, texts, out)).json
    assert resumed["cached"] == stored
    assert resumed["reliability"] == uninterrupted["reliability"]
    assert out.read_bytes() == uninterrupted["csv"]


def test_two_processes_share_one_store(
    cli: Cli, gpt2: Path, texts: Path, tmp_path: Path, uninterrupted: dict[str, Any]
) -> None:
    outs = [tmp_path / "a.csv", tmp_path / "b.csv"]
    processes = [start(*_command(gpt2, texts, out), script=SLOW) for out in outs]
    results = [finish(process) for process in processes]
    assert [result.code for result in results] == [0, 0], [result.err for result in results]
    assert all(result.json["units"] == UNITS for result in results)
    assert [out.read_bytes() for out in outs] == [uninterrupted["csv"]] * 2
    assert cli(*_command(gpt2, texts, tmp_path / "c.csv")).json["cached"] == UNITS


def test_sigterm_does_what_ctrl_c_does(
    cli: Cli, gpt2: Path, texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from headlens.cli import progress

    def interrupt(_: object, done: int, total: int) -> None:
        if done > total / 2:
            signal.raise_signal(signal.SIGTERM)

    with monkeypatch.context() as patch:
        patch.setattr(progress.Reporter, "__call__", interrupt)
        ablation = cli(*_command(gpt2, texts, tmp_path / "s.csv"), "--no-resume")
        gradient = cli("importance", gpt2, "--method", "gradient", "--data", texts, "--batch-size", 1)
        measured = cli("evaluate", gpt2, "--data", texts, "--batch-size", 1, "--json")
    assert (ablation.code, ablation.out) == (130, "")
    assert ablation.lines == ["cancelled: 2 of 5 units are stored; the same command without --no-resume resumes there"]
    assert (gradient.code, gradient.lines) == (
        130,
        ["cancelled: gradient keeps no parts; the same command starts again"],
    )
    assert (measured.code, measured.out, measured.lines) == (130, "", ["cancelled"])
    assert cli(*_command(gpt2, texts, tmp_path / "s.csv")).json["cached"] == 2
