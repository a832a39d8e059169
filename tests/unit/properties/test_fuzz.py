"""A thousand broken links and a thousand broken uploads: no traceback, no hang, no file outside the cache."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from headlens.errors import HeadlensError
from tests.soak import fuzz
from tests.unit.properties.visits import Visit, one_line

COUNT, SEED, PATIENCE = 1_000, 0, 20.0
_watching: list[str] = []
_on = False


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    """Notes every path that is written, made, moved or removed while the watch is on."""
    if not _on:
        return
    if event == "open":
        path, mode, flags = arguments
        writes = (isinstance(mode, str) and set(mode) & set("wax+")) or flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        if writes and isinstance(path, str | bytes | os.PathLike):
            _watching.append(os.path.realpath(os.fsdecode(path)))
    elif event in ("os.remove", "os.rmdir") and arguments[-1] != -1:
        return  # below an opened folder, as rmtree does it; the folder itself is noted
    elif event in ("os.mkdir", "os.remove", "os.rmdir", "os.rename", "os.symlink", "os.link", "shutil.rmtree"):
        _watching.extend(os.path.realpath(os.fsdecode(each)) for each in arguments[:2] if isinstance(each, str | bytes))
    elif event in ("subprocess.Popen", "os.system", "socket.connect"):
        _watching.append(event)


sys.addaudithook(_audit)  # it cannot be taken away again, so it is switched


@contextmanager
def nothing_outside(*allowed: Path) -> Iterator[None]:
    """Afterwards nothing may have been written anywhere else."""
    global _on
    _watching.clear()
    _on = True
    try:
        yield
    finally:
        _on = False
    roots = [os.path.realpath(path) for path in allowed] + [os.devnull]
    assert [path for path in _watching if not any(path == root or path.startswith(root + "/") for root in roots)] == []


def test_the_watch_sees_a_file_outside(tmp_path: Path) -> None:
    with pytest.raises(AssertionError), nothing_outside(tmp_path / "inside"):
        (tmp_path / "outside").write_text("x")


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


@pytest.mark.usefixtures("offline")
def test_broken_links_end_in_a_state_and_a_line(headlens_cache: Path) -> None:
    """The whole way of a link without the page's drawing: adopt, find the model, read the heads, publish."""
    from headlens.models.locating import check_there
    from headlens.ui import state
    from tests.unit.properties.test_head_sets import BOTH, PLAIN

    start = time.monotonic()
    with nothing_outside(headlens_cache, Path(tempfile.gettempdir())):
        for number, (page, query) in enumerate(fuzz.links(COUNT, SEED)):
            visit = Visit().open(page or "heads", **query)
            with visit.at_work():
                state.off_heads(PLAIN if number % 2 else BOTH)
                state.show_notices()
            try:
                check_there(visit.value("model"))
            except HeadlensError as error:
                one_line(error)
            visit.run(page or "heads")
            assert set(visit.url) <= set(fuzz.NAMES)
    assert time.monotonic() - start < PATIENCE * 10


@pytest.mark.usefixtures("offline")
@pytest.mark.parametrize("name", [*dict.fromkeys(fuzz.ODD), "/dev/null", "/dev/stdin", "/proc", "README.md", "pages"])
def test_odd_model_names_are_refused_in_one_line(name: str, headlens_cache: Path) -> None:
    from headlens.lens import open_model

    with nothing_outside(headlens_cache), pytest.raises(HeadlensError) as caught:
        open_model(name)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 2_000


def test_broken_uploads_are_read_or_refused_in_one_line(headlens_cache: Path) -> None:
    given = list(fuzz.files(COUNT, SEED, fuzz.samples()))
    fuzz.upload(*given[0])  # what is imported is imported
    refused = 0
    with nothing_outside(headlens_cache, Path(tempfile.gettempdir())):
        for name, content in given:
            start = time.monotonic()
            how, said = fuzz.upload(name, content)
            assert time.monotonic() - start < PATIENCE, name
            refused += how == "refused"
            assert how == "read" or "\n" not in said
    assert COUNT / 4 < refused < COUNT
    assert not any(Path(tempfile.gettempdir()).glob("up.*"))


def test_the_seed_decides_everything() -> None:
    assert list(fuzz.links(50, 3)) == list(fuzz.links(50, 3))
    assert list(fuzz.links(50, 3)) != list(fuzz.links(50, 4))
