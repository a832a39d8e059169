"""Where a model lies on this machine: a catalogue name, a path or a hub id, turned into a folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from headlens.errors import ModelError
from headlens.models import catalogue, folders, hub
from headlens.models.catalogue import Source
from headlens.models.set_aside import put_back
from headlens.server import limits

GGUF_NOTE = "read from a GGUF file: its weights, quantised or not, were turned into float32"


@dataclass(frozen=True)
class Located:
    """Where a model lies on this machine, before anything of it is read."""

    path: Path
    title: str
    source: Source
    notes: tuple[str, ...] = ()


def locate(name: str) -> Located:
    """Find a model's folder, converting or downloading it when needed.

    Raises:
        ModelError: nothing of that name, or it cannot be fetched.
        LimitError: this server does not offer it.
    """
    limits.current().check_model(name)
    entry = catalogue.find(name)
    if entry is not None and entry.source == "package":
        from headlens.models.packaged import open_packaged

        return Located(open_packaged(name), entry.title, "package", (entry.note,))
    if entry is not None and entry.source == "zoo":
        return Located(catalogue.zoo_folder(name), entry.title, "zoo", (entry.note,) if entry.note else ())
    if _is_local(name, entry):
        return _locate_path(Path(name).expanduser())
    ids = _hub_ids(name, entry)
    cached = next((folder for repo in ids if (folder := hub.cached_snapshot(repo))), None)
    return Located(cached or hub.resolve(ids[0], asked=name), entry.title if entry else name, "hub")


def check_there(name: str) -> None:
    """Tell of a model that is nowhere, within seconds: nothing slow is imported, read, converted or downloaded.

    Raises:
        ModelError: neither in the catalogue, nor a path, nor on a hub that answers.
    """
    entry = catalogue.find(name)
    if (entry is not None and entry.source != "hub") or _is_local(name, entry):
        return
    ids = _hub_ids(name, entry)
    if not any(map(hub.cached_snapshot, ids)):
        hub.check_reachable(name)


def _is_local(name: str, entry: catalogue.Entry | None) -> bool:
    """Whether a path is there and meant: a folder that only shares its name with a hub model has to hold one."""
    try:
        path = Path(name).expanduser()
        put_back(path)
        return path.exists() and (path.is_file() or entry is None or (path / folders.CONFIG).is_file())
    except (OSError, ValueError, RuntimeError):  # a name too long, with a NUL character, of an unknown user
        return False


def _hub_ids(name: str, entry: catalogue.Entry | None) -> tuple[str, ...]:
    """The names that a model may have on the hub; raises ModelError for what cannot be one."""
    if entry is None and not hub.is_repo_id(name):
        looks_like_path = name.startswith((".", "~", "/")) or "\\" in name or name.endswith(".gguf")
        what = "there is no file or folder" if looks_like_path else "unknown model"
        shown = name if len(name) <= 200 else f"{name[:199]}…"
        raise ModelError(f"{what} {shown!r}: {catalogue.suggest(shown)}")
    return entry.hub_ids if entry else (name,)


def _locate_path(path: Path) -> Located:
    """A folder with config.json, a folder with one GGUF file, or a GGUF file."""
    gguf = path if path.suffix.lower() == ".gguf" else None
    if not path.is_file() and not path.is_dir():
        raise ModelError(f"{path} is no file or folder but a device or the like; give the folder of a model")
    if path.is_file() and gguf is None:
        raise ModelError(f"{path} is a file, not a model; give the folder that holds config.json, or a .gguf file")
    if path.is_dir():
        found = sorted(path.glob("*.gguf"))
        has_weights = any(path.glob("*.safetensors")) or (path / folders.INDEX).is_file()
        if not found or ((path / folders.CONFIG).is_file() and has_weights):
            return Located(path, path.resolve().name, "local")
        if len(found) > 1:
            raise ModelError(f"{path} holds {len(found)} GGUF files; give one of them, such as {found[0]}")
        gguf = found[0]
    from headlens.models.conversion import converted

    assert gguf is not None
    return Located(converted(gguf), gguf.stem, "local", (GGUF_NOTE,))
