"""Two folders that change places in one step, and what a kill leaves where a system has no such step."""

from __future__ import annotations

import ctypes
import errno
import glob
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

PART, OLD = ".part", "old"
_HERE, _EXCHANGE = -100, 2
"""AT_FDCWD and RENAME_EXCHANGE, see ``man 2 renameat2``."""
_UNKNOWN = (errno.ENOSYS, errno.EINVAL, errno.EPERM)
"""What kernels and file systems say that do not know the exchange."""


def exchange(one: Path, other: Path) -> bool:
    """Gives each of two folders the other's name; nobody ever sees one of them missing.

    Returns:
        False where the system has no such step (only Linux has it here); then nothing has happened.

    Raises:
        OSError: a folder is missing or may not be renamed.
    """
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError, TypeError):
        return False
    rename.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
    rename.restype = ctypes.c_int
    if not rename(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE):
        return True
    number = ctypes.get_errno()
    if number in _UNKNOWN:
        return False
    raise OSError(number, os.strerror(number), str(one))


def leftovers(folder: Path) -> Iterator[Path]:
    """Folders beside ``folder`` in which somebody writes, or wrote when killed, what is to take its place."""
    return folder.parent.glob(f".{glob.escape(folder.name)}-*{PART}")


def put_back(folder: Path) -> None:
    """Where a kill came between setting the old folder aside and naming the new one: the old one gets its name back."""
    if folder.exists():
        return
    for leftover in leftovers(folder):
        old = leftover / OLD
        if old.is_dir():
            with suppress(OSError):  # somebody else was faster, or may and we may not
                old.rename(folder)
                return
