"""What a model and the built-in texts are, told from their files, so that a kept row is found without opening a model.

A kept row that is not found is not lost: the figures behind it are stored under the model's own fingerprint.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from headlens.errors import ModelError
from headlens.models import catalogue, hub
from headlens.models.packaged import packaged_file
from headlens.paths import asset_dir

SMALL_FILE = 2**23
"""Bytes up to which a file is told by its content; a larger one by size and time of its last change."""
READ = ("*.json", "*.safetensors", "*.gguf")


def folder_of(name: str) -> Path | None:
    """Where a model lies, without fetching or converting anything; None where it is not at hand."""
    entry = catalogue.find(name)
    if entry is not None and entry.source == "package":
        return packaged_file(name)
    if entry is not None and entry.source == "zoo":
        return catalogue.zoo_folder(name)
    try:
        path = Path(name).expanduser()
        if path.exists():
            return path
    except (OSError, ValueError, RuntimeError):
        return None
    ids = entry.hub_ids if entry is not None else (name,) if hub.is_repo_id(name) else ()
    return next((found for repo in ids if (found := hub.cached_snapshot(repo))), None)


def identity(name: str) -> str:
    """sha256 over a model's files.

    Raises:
        ModelError: it is not at hand.
    """
    folder = folder_of(name)
    if folder is None:
        raise ModelError(f"{name} is not on this machine; {catalogue.suggest(name)}")
    files = [folder] if folder.is_file() else [path for pattern in READ for path in folder.glob(pattern)]
    return _digest(sorted(files), folder)


def texts() -> str:
    """sha256 over the built-in sets."""
    folder = asset_dir() / "data"
    return _digest(sorted(path for path in folder.rglob("*") if path.suffix in (".json", ".jsonl", ".png")), folder)


def _digest(files: list[Path], folder: Path) -> str:
    digest = hashlib.sha256()
    for path in files:
        stat = path.stat()
        name = path.name if path == folder else path.relative_to(folder).as_posix()
        small = stat.st_size <= SMALL_FILE
        content = hashlib.sha256(path.read_bytes()).hexdigest() if small else f"{stat.st_size}@{stat.st_mtime_ns}"
        digest.update(f"{name}|{content}|".encode())
    return digest.hexdigest()
