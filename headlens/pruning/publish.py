"""Folders that appear whole or not at all: written beside their place and then given their name."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from headlens.errors import HeadlensError, ModelError
from headlens.models.folders import SIDECAR, read_sidecar
from headlens.models.set_aside import OLD, PART, exchange, leftovers, put_back

_BESIDE = (SIDECAR, "README.md", "generation_config.json", ".DS_Store")
"""What is in a folder of ours besides the files whose checksums it keeps."""
ABANDONED_AFTER = 3600.0
"""Seconds after which an unfinished folder belongs to a process that was killed."""


def check_target(folder: Path, *, overwrite: bool = False) -> Path:
    """Whether a model folder can be written there, so that nobody finds out after an hour; returns the path.

    An empty folder and one that holds only what HeadLens wrote there may be replaced; anything else only with
    ``overwrite``, and a folder that holds other folders never.

    Raises:
        HeadlensError: see above; also a file of that name, or a parent folder that is missing or cannot be written.
    """
    try:
        folder = folder.expanduser().absolute()
    except RuntimeError as error:
        raise HeadlensError(f"{folder}: no home folder is known for that user; give the full path") from error
    parent = folder.parent
    if not folder.name:
        raise HeadlensError(f"{folder} cannot be a model folder; give the name of a new one")
    if not parent.is_dir():
        raise HeadlensError(f"{folder}: there is no folder {parent}; make it first")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise HeadlensError(f"{folder}: the folder {parent} cannot be written; choose another")
    if not folder.exists():
        return folder
    if not folder.is_dir():
        raise HeadlensError(f"{folder} is a file; give the name of a folder")
    found = sorted(folder.iterdir())
    ours = _written_into(folder)
    foreign = [path.name for path in found if path.name not in (ours or ())]
    if not foreign:
        return folder
    if folders_in := [path.name for path in found if path.is_dir()]:
        raise HeadlensError(f"{folder} holds the folder {folders_in[0]}, so it is not replaced; choose another")
    if overwrite:
        return folder
    if ours is None:
        raise HeadlensError(f"{folder} is not empty and HeadLens did not write it; choose another or add --overwrite")
    raise HeadlensError(
        f"{folder} also holds {foreign[0]}, which HeadLens did not write and would remove; choose another or add "
        "--overwrite"
    )


def _written_into(folder: Path) -> set[str] | None:
    """Names of what HeadLens writes into a folder; None for folders that it did not write."""
    try:
        sidecar = read_sidecar(folder) or {}
    except ModelError:  # there is a headlens.json, but nobody can say whose
        return None
    return None if sidecar.get("format") is None else {*sidecar.get("files", {}), *_BESIDE}


@contextmanager
def replacing(folder: Path) -> Iterator[Path]:
    """Gives an empty folder to write into; when the block ends well it becomes ``folder``.

    Whatever happens, ``folder`` is what it was or what it is to be, never something between. Where the system cannot
    exchange two folders there is a moment in which it has no name; whoever then looks for it, puts it back.

    Raises:
        HeadlensError: the disk is full or cannot be written.
    """
    _sweep(folder)
    try:
        work = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", suffix=PART, dir=folder.parent))
    except OSError as error:
        raise not_written(folder, error) from error
    new = work / "new"
    try:
        new.mkdir()
        yield new
        if not folder.exists():
            new.rename(folder)
        elif not exchange(new, folder):
            folder.rename(work / OLD)
            new.rename(folder)
    except OSError as error:
        raise not_written(folder, error) from error
    finally:
        put_back(folder)  # also when Ctrl-C comes between the two renames
        if folder.exists() or not (work / OLD).exists():
            shutil.rmtree(work, ignore_errors=True)


def not_written(folder: Path, error: Exception) -> HeadlensError:
    """What to say when writing fails."""
    reason = getattr(error, "strerror", None) or " ".join(str(error).split())[:160]
    return HeadlensError(f"{folder} was not written: {reason}; free space there or choose another place")


def _sweep(folder: Path) -> None:
    """Remove what killed processes left beside the folder."""
    put_back(folder)
    for leftover in leftovers(folder):
        with suppress(OSError):
            if time.time() - leftover.stat().st_mtime > ABANDONED_AFTER:
                shutil.rmtree(leftover, ignore_errors=True)
