"""Results that outlive the process, addressed by what produced them: nothing is computed twice, a kill loses one unit.

One file (or object, see :mod:`headlens.shelves`) holds one unit: ``MAGIC (8 bytes) | key (32) | sha256 of magic, key
and payload (32) | payload``, where the payload is a safetensors buffer (arrays, and the unit's meta as JSON). In a
folder files appear under their final name by ``os.replace`` of a complete, synced temporary file, so a reader sees a
whole entry or none. The same key always means the same content, so several processes share a store without a lock:
whoever writes last changes nothing.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
from safetensors import numpy as safetensors_numpy

from headlens.errors import StoreError
from headlens.paths import store_place
from headlens.shelves import KEY_PATTERN, STALE_SECONDS, shelf_at

__all__ = ["SCHEMA", "STALE_SECONDS", "Store", "unit_key"]

SCHEMA = 1
"""Mixed into every key. Raise it when the numbers or the file format change: old entries are then not found."""

MAGIC = b"HLSTORE1"
_HEADER_BYTES = len(MAGIC) + 32 + 32
_log = logging.getLogger(__name__)


def _canonical(value: object, *, nan: bool = False) -> str:
    """Write ``value`` as the one JSON text that means it: keys sorted, no spaces, ASCII only, floats by shortest repr.

    Raises:
        TypeError: something JSON would drop or change silently (a set, an array, a number as a dict's key, ...).
        ValueError: NaN or infinity while ``nan`` is false.
    """
    _refuse_unknown(value, "value")
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=nan)


def _refuse_unknown(value: object, where: str) -> None:
    if isinstance(value, dict):
        for name, item in value.items():
            if not isinstance(name, str):
                raise TypeError(f"{where} has the dict key {name!r}; use text keys")
            _refuse_unknown(item, f"{where}[{name!r}]")
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            _refuse_unknown(item, f"{where}[{index}]")
    elif not (value is None or isinstance(value, str | bool | int | float)):
        raise TypeError(f"{where} is a {type(value).__name__}; pass None, bool, int, float, str, list, tuple or dict")


def unit_key(**what: Any) -> str:
    """Name one unit of work by everything that decides its result.

    Fields (model fingerprint, method, data hash, layer, ...) may be None, bool, int, float, str, and lists, tuples (as
    lists) and dicts of these. ``1``, ``1.0`` and ``True`` give three keys: at worst a unit is computed twice.

    Returns:
        64 lowercase hex digits: sha256 of the canonical JSON of ``{"schema": SCHEMA, "what": what}``.

    Raises:
        TypeError: a field of any other type, at any depth.
        ValueError: a NaN or an infinity, which do not equal themselves or have no JSON form.
    """
    return hashlib.sha256(_canonical({"schema": SCHEMA, "what": what}).encode("ascii")).hexdigest()


def _pack(key: str, arrays: Mapping[str, np.ndarray], meta: Mapping[str, Any]) -> bytes:
    plain: dict[str, np.ndarray] = {}
    for name, array in arrays.items():
        if not isinstance(name, str) or name == "__metadata__":
            raise ValueError(f"{name!r} cannot name an array in the store")
        # safetensors copies raw memory: views must become dense. np.ascontiguousarray would turn 0-d into 1-d.
        dense = np.asarray(array, order="C")
        if dense.dtype.kind not in "biuf" or dense.dtype.itemsize > 8:
            raise TypeError(f"array {name!r} is {dense.dtype}; the store keeps bool, int and float of up to 64 bits")
        plain[name] = dense
    payload = safetensors_numpy.save(plain, {"meta": _canonical(dict(meta), nan=True)})
    signed = MAGIC + bytes.fromhex(key)
    return signed + hashlib.sha256(signed + payload).digest() + payload


def _unpack(key: str, raw: bytes) -> bytes | None:
    """The safetensors payload of a file's bytes, or None unless every byte is as it was written for ``key``."""
    signed, payload = MAGIC + bytes.fromhex(key), raw[_HEADER_BYTES:]
    return payload if raw[:_HEADER_BYTES] == signed + hashlib.sha256(signed + payload).digest() else None


class Store:
    """Results of finished units in a folder or at an fsspec URL, created by the first ``put``; processes may share it.

    Args:
        root: the folder or URL; None: what ``HEADLENS_STORE`` names, else a folder in the user's cache.

    Raises:
        StoreError: a URL of an unknown kind, or the package for it is missing.
    """

    unit_key = staticmethod(unit_key)

    def __init__(self, root: Path | str | None = None) -> None:
        self.shelf = shelf_at(store_place() if root is None else root)
        self._reported: set[str] = set()
        self._swept = False

    @property
    def root(self) -> Path:
        """The folder; for stores at a URL, which have none, the URL as a path (for messages)."""
        return Path(self.shelf.where)

    @property
    def where(self) -> str:
        """The folder or URL, from which another process can make the same store."""
        return str(self.shelf.where)

    def get(self, key: str) -> dict[str, np.ndarray] | None:
        """Arrays of a unit (own, writeable, C-ordered copies), or None: missing, or damaged and hence dropped.

        Raises:
            StoreError: the folder cannot be read.
            ValueError: ``key`` does not come from :func:`unit_key`.
        """
        payload = self._read(key)
        return None if payload is None else {n: a.copy() for n, a in safetensors_numpy.load(payload).items()}

    def meta(self, key: str) -> dict[str, Any] | None:
        """What ``put`` was told about a unit (tuples come back as lists), or None when there is no sound entry."""
        if (payload := self._read(key)) is None:
            return None
        header = json.loads(payload[8 : 8 + int.from_bytes(payload[:8], "little")])
        return json.loads(header["__metadata__"]["meta"])

    def __contains__(self, key: str) -> bool:
        """Whether ``get`` would return arrays; reads and checks the entry, which counts as a use."""
        return self._read(key) is not None

    def put(self, key: str, arrays: Mapping[str, np.ndarray], meta: Mapping[str, Any] | None = None) -> None:
        """Keep a finished unit: written, synced to the disk and visible to other processes when this returns.

        Args:
            key: From :func:`unit_key`.
            arrays: Any shapes (0-d and empty ones too) of bool, integer or float16/32/64; bits are kept, NaN included.
            meta: Facts worth keeping that do not decide the result (seconds, versions); JSON types, NaN allowed.

        Raises:
            StoreError: full disk, read-only folder, ...; other entries stay as they were.
            TypeError: an array or meta value of another type.
            ValueError: an array name or key that cannot be kept.
        """
        entry = _pack(_checked(key), arrays, meta or {})
        with self._explained("write"):
            if not self._swept:
                self._sweep()
            self.shelf.write(key, entry)

    def check(self) -> None:
        """Writes a small entry, reads it and removes it.

        Raises:
            StoreError: that is not possible; so a long computation need not find out.
        """
        key = unit_key(check=uuid4().hex)
        self.put(key, {})
        with self._explained("read"):
            if self._read(key) is None:
                raise StoreError(
                    f"{self.shelf.shown} does not give back what was written; choose another place for results"
                )
        self.discard(key)

    def discard(self, key: str) -> None:
        """Removes one entry, if it is there; raises StoreError where that is not allowed."""
        with self._explained("remove"):
            self.shelf.remove(_checked(key))

    def size(self) -> int:
        """Bytes that all entries take (file lengths)."""
        with self._explained("read"):
            return sum(length for _, length, _ in self.shelf.entries())

    def clear(self) -> int:
        """Remove every entry; returns how many went."""
        return self.prune_to(0)

    def prune_to(self, max_bytes: int) -> int:
        """Remove the least recently used entries until at most ``max_bytes`` are left; returns how many went."""
        if max_bytes < 0:
            raise ValueError(f"max_bytes is {max_bytes}; give 0 or more")
        removed = 0
        with self._explained("remove"):
            self._sweep()
            entries = sorted(self.shelf.entries())
            total = sum(length for _, length, _ in entries)
            for _, length, key in entries:
                if total <= max_bytes:
                    break
                self.shelf.remove(key)
                total -= length
                removed += 1
        return removed

    def _read(self, key: str) -> bytes | None:
        _checked(key)
        with self._explained("read"):
            raw = self.shelf.read(key)
        if raw is None:
            return None
        payload = _unpack(key, raw)
        with suppress(*self.shelf.failures):  # a read-only store still serves what it has
            if payload is None:
                self.shelf.remove(key)
            else:
                self.shelf.used(key)
        if payload is None and key not in self._reported:
            self._reported.add(key)
            name = self.shelf.name(key)
            _log.warning("stored result %s is damaged; it is dropped and will be computed again", name)
        return payload

    def _sweep(self) -> None:
        self._swept = True
        self.shelf.sweep()

    @contextmanager
    def _explained(self, doing: str) -> Iterator[None]:
        try:
            yield
        except StoreError:
            raise
        except self.shelf.failures as error:
            why = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise StoreError(
                f"cannot {doing} results in {self.shelf.shown} ({why}); {self.shelf.advice(error)}"
            ) from error


def _checked(key: str) -> str:
    if not KEY_PATTERN.fullmatch(key):
        raise ValueError(f"{key!r} is no store key; make one with unit_key")
    return key
