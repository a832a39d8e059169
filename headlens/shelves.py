"""Where a store's entries lie: in a folder (also one that machines share), or on object storage through fsspec.

A shelf keeps bytes under a key and never shows half of them: a folder renames a synced file into its place, object
storage puts whole objects, and where a remote file system can do neither, the store's checksum finds what was torn.
"""

from __future__ import annotations

import errno
import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit
from urllib.request import url2pathname
from uuid import uuid4

from headlens.errors import StoreError
from headlens.paths import CACHE_VARIABLE, STORE_VARIABLE

STALE_SECONDS = 3600.0
"""Age after which a temporary file is taken for the remains of a killed process."""
_PASSWORD = re.compile(r"://[^/@]*@")
KEY_PATTERN = re.compile(r"[0-9a-f]{64}")
WHOLE_PUTS = frozenset({"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "adl", "oci", "oss", "memory"})
"""Protocols under which a put shows the whole object or none; elsewhere we write beside it and rename."""


class Shelf(Protocol):
    """Bytes under keys.

    Attributes:
        where: as the user wrote it.
        shown: the same for messages, without a password.
        failures: what goes wrong raises one of these.
    """

    @property
    def where(self) -> str | Path: ...
    @property
    def shown(self) -> str: ...
    @property
    def failures(self) -> tuple[type[Exception], ...]: ...

    def advice(self, error: Exception) -> str: ...
    def read(self, key: str) -> bytes | None: ...
    def write(self, key: str, content: bytes) -> None: ...
    def used(self, key: str) -> None: ...
    def remove(self, key: str) -> None: ...
    def entries(self) -> Iterator[tuple[int, int, str]]: ...
    def sweep(self) -> None: ...
    def name(self, key: str) -> str: ...


def shelf_at(place: str | Path) -> Shelf:
    """The shelf at a folder or an fsspec URL (``s3://bucket/results``, ``file:///shared/results``, ...).

    Raises:
        StoreError: an unknown kind of URL, or the package for it is missing.
    """
    if isinstance(place, Path) or "://" not in place:
        return Folder(Path(place))
    if urlsplit(place).scheme == "file":
        return Folder(Path(url2pathname(urlsplit(place).path)))
    return Bucket(place)


class Folder:
    """Files in the folder ``where``, created by the first write; processes and machines may share it."""

    failures: tuple[type[Exception], ...] = (OSError,)

    def __init__(self, where: Path) -> None:
        self.where, self.shown = where, str(where)

    def advice(self, error: Exception) -> str:
        """What to do about it."""
        full = getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT)
        advice = "free space" if full else "make it a folder you may read and write"
        named = STORE_VARIABLE if os.environ.get(STORE_VARIABLE) else CACHE_VARIABLE
        return f"{advice} or set {named} to another folder"

    def path(self, key: str) -> Path:
        """The file of a key."""
        return self.where / key[:2] / key

    def name(self, key: str) -> str:
        """The entry, for messages."""
        return str(self.path(key))

    def read(self, key: str) -> bytes | None:
        """The bytes, or None."""
        try:
            return self.path(key).read_bytes()
        except FileNotFoundError:
            return None

    def write(self, key: str, content: bytes) -> None:
        """All or nothing, on the disk when this returns."""
        path = self.path(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f"{uuid4().hex}.tmp")
        try:
            with temporary.open("xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        finally:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
        with suppress(OSError):  # lets the new name survive a power cut too; some systems cannot sync folders
            folder = os.open(path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)

    def used(self, key: str) -> None:
        """Marks the use; file systems often leave the access time alone."""
        os.utime(self.path(key))

    def remove(self, key: str) -> None:
        """Nothing happens where it is gone already."""
        self.path(key).unlink(missing_ok=True)

    def entries(self) -> Iterator[tuple[int, int, str]]:
        """Last use (ns since 1970), length in bytes and key of every entry."""
        for path in self.where.glob("??/*"):
            if KEY_PATTERN.fullmatch(path.name) and path == self.path(path.name):
                with suppress(FileNotFoundError):  # another process may have removed it meanwhile
                    stat = path.stat()
                    yield stat.st_mtime_ns, max(stat.st_size, 1), path.name  # 1: clear() takes emptied files too

    def sweep(self) -> None:
        """Removes what killed writers left."""
        for path in self.where.glob("??/*.tmp"):
            with suppress(OSError):  # gone meanwhile, or another user's: neither keeps us from writing
                if time.time() - path.stat().st_mtime > STALE_SECONDS:
                    path.unlink()


class Bucket:
    """Objects below an fsspec URL. Nothing here marks a use, so the entries that were written first are pruned first.

    Raises:
        StoreError: an unknown kind of URL, or the package for it is missing.
    """

    failures: tuple[type[Exception], ...] = (Exception,)
    """Each service has errors of its own, which are no OSError."""

    def __init__(self, where: str) -> None:
        self.where = where.rstrip("/")
        self.shown = _PASSWORD.sub("://***@", self.where)
        try:
            from fsspec.core import url_to_fs

            self._files, self._root = url_to_fs(self.where)
        except Exception as error:  # each kind of storage has its own
            raise StoreError(f"cannot use {self.shown} for results ({error}); {self.advice(error)}") from error
        protocol = self._files.protocol
        self._whole = bool(WHOLE_PUTS & {protocol} if isinstance(protocol, str) else WHOLE_PUTS & set(protocol))

    def advice(self, error: Exception) -> str:  # noqa: ARG002 - the same for all
        """What to do about it."""
        return (
            f"give {STORE_VARIABLE} a folder, or a URL that fsspec can write here "
            "(s3://... needs `pip install s3fs` and the service's own credentials)"
        )

    def name(self, key: str) -> str:
        """The entry, for messages."""
        return f"{self.shown}/{key[:2]}/{key}"

    def _path(self, key: str) -> str:
        return f"{self._root.rstrip('/')}/{key[:2]}/{key}"

    def read(self, key: str) -> bytes | None:
        """The bytes, or None."""
        try:
            return self._files.cat_file(self._path(key))
        except FileNotFoundError:
            return None

    def write(self, key: str, content: bytes) -> None:
        """All or nothing where the storage puts whole objects or renames."""
        path = self._path(key)
        if self._whole:
            self._files.pipe_file(path, content)
            return
        temporary = f"{path.rpartition('/')[0]}/{uuid4().hex}.tmp"
        self._files.makedirs(path.rpartition("/")[0], exist_ok=True)
        try:
            self._files.pipe_file(temporary, content)
            self._files.mv(temporary, path)
        except Exception:
            with suppress(Exception):
                self._files.rm_file(temporary)
            raise

    def used(self, key: str) -> None:
        """Object storage keeps no time of use."""

    def remove(self, key: str) -> None:
        """Nothing happens where it is gone already."""
        with suppress(FileNotFoundError):
            self._files.rm_file(self._path(key))

    def entries(self) -> Iterator[tuple[int, int, str]]:
        """Time of writing (ns since 1970, 0 where it is not told), length in bytes and key of every entry."""
        self._files.invalidate_cache()
        for path, about in self._files.find(self._root, detail=True).items():
            key = path.rpartition("/")[2]
            if KEY_PATTERN.fullmatch(key):
                yield _nanoseconds(about), max(int(about.get("size") or 0), 1), key

    def sweep(self) -> None:
        """Remains of killed writers are left to the storage's own rules of expiry."""


def _nanoseconds(about: dict[str, Any]) -> int:
    for name in ("LastModified", "last_modified", "mtime", "updated", "created"):
        value = about.get(name)
        if isinstance(value, int | float):
            return int(value * 1e9)
        if isinstance(value, datetime):
            return int(value.timestamp() * 1e9)
    return 0
