"""From options to a model and data; whatever can be checked without them is checked before they are loaded."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from headlens.cli.output import say
from headlens.errors import DataError, HeadlensError

if TYPE_CHECKING:
    from headlens.data.dataset import DataSet, Split
    from headlens.lens import Lens


def check_out(path: Path, ending: str) -> Path:
    """Whether a file can be written there, so that nobody finds out after an hour; returns the path.

    Raises:
        HeadlensError: another ending, a missing or read-only folder, or a folder of that name.
    """
    try:
        path = path.expanduser()
    except RuntimeError as error:
        raise HeadlensError(f"--out {path}: no home folder is known for that user; give the full path") from error
    folder = path.parent
    if path.suffix.lower() != ending:
        raise HeadlensError(f"--out {path}: give a name that ends in {ending}")
    if path.is_dir():
        raise HeadlensError(f"--out {path} is a folder; give the name of a file")
    if not folder.is_dir():
        raise HeadlensError(f"--out {path}: there is no folder {folder}; make it first")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise HeadlensError(f"--out {path}: the folder {folder} cannot be written; choose another")
    return path


def check_model(name: str) -> None:
    """Refuses a model that is nowhere before torch is imported; raises ModelError."""
    from headlens.models.locating import check_there

    check_there(name)


def check_data(spec: str | None) -> None:
    """Refuses a data file that is not there before a model is opened; raises DataError."""
    from headlens.data.readers import ENDINGS, read_file

    if spec is not None and Path(spec).suffix.lower() in ENDINGS and not _is_file(Path(spec)):
        read_file(Path(spec))  # says what is wrong with it


def _is_file(path: Path) -> bool:
    try:
        return path.expanduser().is_file()
    except (OSError, ValueError, RuntimeError):  # a name too long, with a NUL character, of an unknown user
        return False


def open_lens(
    model: str, device: str, dtype: str | None, device_map: str | None = None, max_memory: str | None = None
) -> Lens:
    """Opens MODEL, spread over several devices where that is asked for, and says what must be known of it.

    Raises:
        ModelError: it cannot be opened.
    """
    from headlens.models.placement import read_device_map, read_limits

    spread = None if device_map is None else read_device_map(device_map)
    limits = read_limits(max_memory)
    from headlens.lens import open_model

    lens = open_model(model, device=device, dtype=dtype, device_map=spread, max_memory=limits)
    for note in lens.notes:
        if note.startswith("parameters: "):  # where they lie, of a model that is spread
            say(note)
        elif "pruned_heads" in note:  # not the model that its name promises
            say(f"warning: {note}")
    return lens


def load(
    lens: Lens, spec: str | None, split: Split | None, limit: int | None, seed: int, *, default_split: Split
) -> DataSet:
    """The examples that the options name; raises DataError."""
    from headlens.data.dataset import KINDS
    from headlens.data.select import default_for, load_data

    if lens.task not in KINDS:
        raise DataError(f"{lens.name} is a {lens.task} model, for which there is no data; use --method magnitude")
    name = default_for(lens) if spec is None else spec
    return load_data(name, task=lens.task, split=split, default_split=default_split, limit=limit, seed=seed)
