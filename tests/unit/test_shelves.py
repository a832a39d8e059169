"""Stores at URLs: the same bits, nothing half-written, and one line where a URL cannot be used."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from headlens.errors import StoreError
from headlens.paths import STORE_VARIABLE, store_dir
from headlens.shelves import Bucket, Folder
from headlens.store import Store, unit_key

KEYS = [unit_key(i=i) for i in range(4)]
ARRAYS = {"a": np.array([1.5, np.nan, -0.0]), "n": np.array(3), "on": np.zeros((2, 0), bool)}


class Refusing(MemoryFileSystem):
    """Object storage that may be read and not written."""

    protocol = "refusing"
    store: dict[str, Any] = {}  # noqa: RUF012 - as in the base class

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **kwargs: Any) -> None:
        raise RuntimeError("403 Forbidden\nrequest id 17")  # as services have it: no OSError


fsspec.register_implementation("refusing", Refusing, clobber=True)


@pytest.fixture(params=["memory", "local"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Whole objects (memory), and a file system that has to rename (local)."""
    yield f"memory://{tmp_path.name}/results" if request.param == "memory" else f"local://{tmp_path}/results"
    MemoryFileSystem.store.clear()


def files_at(url: str) -> dict[str, bytes]:
    files, root = fsspec.core.url_to_fs(url)
    return {path: files.cat_file(path) for path in files.find(root)}


def same_bits(found: dict[str, np.ndarray] | None) -> bool:
    return found is not None and {n: (a.dtype, a.shape, a.tobytes()) for n, a in found.items()} == {
        n: (a.dtype, a.shape, a.tobytes()) for n, a in ARRAYS.items()
    }


def test_what_is_put_is_found_by_another_store(url: str) -> None:
    store = Store(url)
    assert isinstance(store.shelf, Bucket)
    assert store.where == url
    assert store.get(KEYS[0]) is None
    store.put(KEYS[0], ARRAYS, {"seconds": 1.5})
    other = Store(f"{url}/")
    assert same_bits(other.get(KEYS[0]))
    assert other.meta(KEYS[0]) == {"seconds": 1.5}
    assert [path.rpartition("/")[2] for path in files_at(url)] == [KEYS[0]]  # no temporary files either
    store.discard(KEYS[0])
    store.discard(KEYS[0])
    assert KEYS[0] not in other


def test_damage_is_found_and_healed(url: str, caplog: pytest.LogCaptureFixture) -> None:
    store = Store(url)
    store.put(KEYS[0], ARRAYS)
    ((path, whole),) = files_at(url).items()
    files, _ = fsspec.core.url_to_fs(url)
    for broken in (whole[:-1], b"", whole[:80] + bytes([whole[80] ^ 4]) + whole[81:]):
        files.pipe_file(path, broken)
        with caplog.at_level(logging.WARNING):
            assert store.get(KEYS[0]) is None
        assert files_at(url) == {}
    assert [url in record.getMessage() for record in caplog.records] == [True]
    store.put(KEYS[0], ARRAYS)
    assert same_bits(store.get(KEYS[0]))


def test_pruned_from_the_first_written(url: str) -> None:
    store = Store(url)
    for key in KEYS:
        store.put(key, ARRAYS)
    one = store.size() // len(KEYS)
    assert store.size() == sum(len(content) for content in files_at(url).values())
    assert store.prune_to(2 * one) == 2
    if url.startswith("memory"):  # files of one moment have one time
        assert [key in store for key in KEYS] == [False, False, True, True]
    assert store.clear() == 2
    assert store.size() == 0


def test_a_writer_that_fails_leaves_the_old_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from fsspec.implementations.local import LocalFileSystem

    url = f"local://{tmp_path}"
    store = Store(url)
    store.put(KEYS[0], ARRAYS)

    def broken(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(LocalFileSystem, "mv", broken)
    with pytest.raises(StoreError, match="No space left on device"):
        store.put(KEYS[0], {"a": np.zeros(1)})
    assert same_bits(store.get(KEYS[0]))
    assert len(files_at(url)) == 1


@pytest.mark.parametrize(
    ("where", "told"),
    [
        ("nosuch://bucket/results", "Protocol not known: nosuch"),
        ("refusing://bucket/results", "403 Forbidden request id 17"),
    ],
)
def test_a_url_that_cannot_be_written_is_told_in_one_line(where: str, told: str) -> None:
    with pytest.raises(StoreError) as caught:
        Store(where).check()
    message = str(caught.value)
    assert "\n" not in message
    assert where in message
    assert told in message
    assert f"give {STORE_VARIABLE} a folder, or a URL that fsspec can write here" in message


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object, **__: object) -> None:
        raise ImportError("Install s3fs to access S3")

    monkeypatch.setattr("fsspec.core.url_to_fs", missing)
    with pytest.raises(StoreError, match=r"Install s3fs to access S3.*pip install s3fs"):
        Store("s3://bucket/results")


def test_a_password_in_a_url_is_not_shown(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(StoreError, match=r"refusing://\*\*\*@bucket/results") as caught:
        Store("refusing://me:secret@bucket/results").put(KEYS[0], ARRAYS)
    assert "secret" not in str(caught.value)


def test_the_check_leaves_nothing(url: str, tmp_path: Path) -> None:
    Store(url).check()
    assert files_at(url) == {}
    Store(tmp_path / "folder").check()
    assert not [path for path in (tmp_path / "folder").rglob("*") if path.is_file()]


def test_the_environment_names_the_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(STORE_VARIABLE, "")
    assert Store().root == store_dir()
    monkeypatch.setenv(STORE_VARIABLE, "memory://results")
    assert Store().where == "memory://results"
    monkeypatch.setenv(STORE_VARIABLE, f"file://{tmp_path}/with%20space")
    store = Store()
    assert isinstance(store.shelf, Folder)
    assert store.root == tmp_path / "with space"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(STORE_VARIABLE, "here")
    assert Store().root == tmp_path / "here"
    monkeypatch.setenv(STORE_VARIABLE, "~no-such-user/x")
    with pytest.raises(StoreError, match=f"{STORE_VARIABLE}=~no-such-user"):
        Store()
