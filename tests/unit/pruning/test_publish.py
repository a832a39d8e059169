"""A folder that is replaced is whole at every moment: killed at each line, and on a disk that is full."""

from __future__ import annotations

import errno
import multiprocessing
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from headlens.errors import HeadlensError, ModelError
from headlens.models import set_aside
from headlens.models.locating import check_there
from headlens.pruning import publish
from headlens.pruning.publish import replacing

KILLED = 9
FILES = (publish.__file__, set_aside.__file__)
OLD, NEW = {"config.json": "old", "weights": "old"}, {"config.json": "new", "weights": "new"}


def written(folder: Path, files: dict[str, str]) -> Path:
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def content(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()}


def replace(folder: Path) -> None:
    with replacing(folder) as new:
        written(new, NEW)


def killed_at(line: int, folder: Path) -> bool:
    """Replaces ``folder`` in a process that dies before its ``line``-th line of the two modules; False if that is over.

    Nothing of the process's own clean-up runs, as with kill -9.
    """

    def work() -> None:
        left = line

        def trace(frame: FrameType, event: str, _: Any) -> Any:
            nonlocal left
            if frame.f_code.co_filename not in FILES:
                return None
            if event == "line":
                left -= 1
                if left < 0:
                    os._exit(KILLED)
            return trace

        sys.settrace(trace)
        replace(folder)
        os._exit(0)

    process = multiprocessing.get_context("fork").Process(target=work)
    process.start()
    process.join(30)
    assert process.exitcode in (0, KILLED)
    return process.exitcode == KILLED


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("atomic", [True, False])
def test_killed_at_each_line(atomic: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With an exchange the folder is whole at once; without one, as soon as somebody looks for it."""
    if not atomic:
        monkeypatch.setattr(publish, "exchange", lambda *_: False)
    elif not set_aside.exchange(written(tmp_path / "a", OLD), written(tmp_path / "b", NEW)):
        pytest.skip("this system cannot exchange two folders")
    found, line, missing = [], 0, 0
    while True:
        folder = written(tmp_path / f"folder-{line}", OLD)
        killed = killed_at(line, folder)
        if not folder.exists():
            missing += 1
            assert not atomic
            check_there(str(folder))  # as every command and page does first
        assert content(folder) in (OLD, NEW)
        found.append(content(folder))
        replace(folder)  # what was left behind hinders nobody
        assert content(folder) == NEW
        line += 1
        if not killed:
            break
    assert found[0] == OLD
    assert found[-1] == NEW
    assert line > 15
    assert (missing > 0) is not atomic


def test_exchange(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = written(tmp_path / "one [1]", OLD), written(tmp_path / "äther", NEW)
    if not set_aside.exchange(one, other):
        pytest.skip("this system cannot exchange two folders")
    assert (content(one), content(other)) == (NEW, OLD)
    with pytest.raises(FileNotFoundError):
        set_aside.exchange(one, tmp_path / "none")
    monkeypatch.setattr(set_aside.ctypes, "CDLL", lambda *_, **__: object())
    assert not set_aside.exchange(one, other)
    assert (content(one), content(other)) == (NEW, OLD)


def failing(name: str, number: int) -> Callable[..., Any]:
    def fail(*_: Any, **__: Any) -> Any:
        raise OSError(number, os.strerror(number), name)

    return fail


@pytest.mark.parametrize("step", ["mkdtemp", "exchange", "rename"])
def test_a_full_disk_at_each_step(step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = written(tmp_path / "folder", OLD)
    full = failing(step, errno.ENOSPC)
    if step == "mkdtemp":
        monkeypatch.setattr(publish.tempfile, "mkdtemp", full)
    elif step == "exchange":
        monkeypatch.setattr(publish, "exchange", full)
    else:
        monkeypatch.setattr(publish, "exchange", lambda *_: False)
        rename = Path.rename
        monkeypatch.setattr(Path, "rename", lambda self, to: full() if self.name == "new" else rename(self, to))
    with pytest.raises(HeadlensError, match=r"folder was not written: No space left on device; free space"):
        replace(folder)
    assert content(folder) == OLD
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_the_only_copy_is_never_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither folder gets the name: the old one stays where it was set aside, and is found later."""
    folder = written(tmp_path / "folder", OLD)
    rename = Path.rename
    monkeypatch.setattr(publish, "exchange", lambda *_: False)
    refused = failing("rename", errno.EACCES)
    monkeypatch.setattr(Path, "rename", lambda self, to: refused() if to == folder else rename(self, to))
    with pytest.raises(HeadlensError, match="not written"):
        replace(folder)
    monkeypatch.undo()
    assert not folder.exists()
    check_there(str(folder))
    assert content(folder) == OLD
    with pytest.raises(ModelError):
        check_there(str(tmp_path / "never"))
