"""Names of models and files in what is passed on: commands, ``headlens.json``, cards and reports tell no whole paths.

A path tells who made something and where; it also leads nowhere on another machine.
"""

from __future__ import annotations

import os
from pathlib import Path

_SHARED_PARTS = 3
"""So many parts have to be common (``/``, ``home``, a user), or the way from one folder to the other tells a name."""


def spoken(name: str | Path) -> str:
    """A name for a command: as it was typed, of a whole path only the last part."""
    text = str(name)
    path = Path(text)
    return path.name if path.name and (path.is_absolute() or text.startswith("~")) else text


def seen_from(folder: Path, name: str) -> str:
    """A model's name for a file in ``folder``: the way there for one that lies near by, else as :func:`spoken`."""
    try:
        path = Path(name).expanduser()
        if not path.exists():
            return spoken(name)
        there, here = path.resolve(), folder.expanduser().resolve()
        if len(Path(os.path.commonpath([there, here])).parts) >= _SHARED_PARTS:
            way = Path(os.path.relpath(there, here)).as_posix()
            return way if way.startswith("..") else f"./{way}"
    except (OSError, ValueError, RuntimeError):  # names that are no paths, and other drives
        pass
    return spoken(name)


def found_from(folder: Path | None, name: str) -> str:
    """What :func:`seen_from` wrote, as a name that can be opened from anywhere."""
    if folder is None or not name.startswith(("./", "../")):
        return name
    return str(Path(os.path.normpath(folder.expanduser().resolve() / name)))
