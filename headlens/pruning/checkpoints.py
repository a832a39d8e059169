"""Where a training stands, on disk: it survives being killed, and goes on to the same bits.

A folder holds ``state.json`` and the tensor files that it names. Tensor files are complete before ``state.json`` names
them, and ``state.json`` appears by a rename, so a kill at any moment leaves the state before or the one after.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from uuid import uuid4

from headlens.errors import HeadlensError, ModelError
from headlens.models.folders import read_json, tensor_header
from headlens.paths import cache_dir

if TYPE_CHECKING:
    from torch import Tensor

STATE = "state.json"
LOCK = "lock"
ABANDONED_AFTER = 14 * 24 * 3600.0
"""Seconds after which nobody will go on with a training; its state takes four times the weights on the disk."""
_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Checkpoint:
    """What was kept.

    Attributes:
        facts: the numbers of ``state.json``.
        tensors: by file (``last``, ``best``): tensors by name.
    """

    facts: Mapping[str, Any]
    tensors: Mapping[str, Mapping[str, Tensor]]


class Checkpoints:
    """The checkpoint of one training, named by a key that says everything that decides its numbers.

    Args:
        key: from :func:`headlens.store.unit_key`.
        root: folder of all trainings; None takes ``recovery`` in the cache folder.
    """

    def __init__(self, key: str, root: Path | None = None) -> None:
        self.folder = (cache_dir() / "recovery" if root is None else root) / key[:32]
        self.key = key
        self.usable = True

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Nobody else trains the same at the same time; raises HeadlensError if somebody does."""
        lock = self._lock()
        self._forget_abandoned()
        try:
            yield
        finally:
            if lock is not None:
                lock.close()

    def _lock(self) -> IO[str] | None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            file = (self.folder / LOCK).open("w")
        except OSError as error:
            self._give_up(error)
            return None
        try:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except ImportError:  # Windows has no such lock: two equal trainings there would write the same bits
            pass
        except BlockingIOError as error:
            file.close()
            raise HeadlensError("this very recovery is running already; wait for it, or take another --seed") from error
        except OSError as error:  # a network disk without locks
            _logger.warning("%s cannot be locked: %s", self.folder, error.strerror)
        return file

    def save(self, facts: Mapping[str, Any], tensors: Mapping[str, Mapping[str, Tensor]]) -> None:
        """Keeps a state. Files of the last one that are not given again stay.

        A disk that is full ends the keeping with a warning, not the training.

        Args:
            facts: JSON-ready numbers.
            tensors: by file name (without ending): what changed since the last call.
        """
        if not self.usable:
            return
        from safetensors import SafetensorError
        from safetensors.torch import save_file

        try:
            files = dict(self._files())
            for name, content in tensors.items():
                files[name] = f"{name}-{uuid4().hex[:12]}.safetensors"
                path = self.folder / files[name]
                save_file({key: tensor.detach().cpu().contiguous() for key, tensor in content.items()}, path)
                _sync(path)
            temporary = self.folder / f"{STATE}.{os.getpid()}.part"
            temporary.write_text(json.dumps({"key": self.key, "files": files, "facts": facts}), encoding="utf-8")
            _sync(temporary)
            temporary.replace(self.folder / STATE)
        except (OSError, SafetensorError) as error:
            self._give_up(error)
            return
        self._sweep(set(files.values()))

    def load(self) -> Checkpoint | None:
        """The state that was kept, or None: there is none, or it is damaged."""
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        try:
            state = read_json(self.folder / STATE) if (self.folder / STATE).is_file() else {}
            if state.get("key") != self.key:
                return None
            paths = {name: self.folder / Path(str(file)).name for name, file in state["files"].items()}
            for path in paths.values():
                tensor_header(path)
            return Checkpoint(state["facts"], {name: load_file(path) for name, path in paths.items()})
        except (ModelError, OSError, SafetensorError, KeyError, AttributeError) as error:
            _logger.warning("the kept state of this recovery is damaged (%s); it starts again", error)
            return None

    def clear(self) -> None:
        """Forgets everything."""
        for path in self.folder.glob("*"):
            if path.name != LOCK:
                with suppress(OSError):
                    path.unlink()

    def remove(self) -> None:
        """Forgets everything, the folder too."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _forget_abandoned(self) -> None:
        for folder in self.folder.parent.glob("*"):
            with suppress(OSError):
                if folder != self.folder and time.time() - (folder / STATE).stat().st_mtime > ABANDONED_AFTER:
                    shutil.rmtree(folder, ignore_errors=True)

    def _files(self) -> Mapping[str, str]:
        try:
            state = read_json(self.folder / STATE)
        except ModelError:
            return {}
        return state["files"] if state.get("key") == self.key else {}

    def _sweep(self, keep: set[str]) -> None:
        """Files that no state names any more: older ones, and those of killed processes."""
        for path in self.folder.glob("*"):
            if path.name not in keep and path.name not in (STATE, LOCK):
                with suppress(OSError):
                    path.unlink()

    def _give_up(self, error: Exception) -> None:
        reason = getattr(error, "strerror", None) or " ".join(str(error).split())[:160]
        _logger.warning("where this recovery stands cannot be kept in %s (%s); it goes on without", self.folder, reason)
        self.usable = False


def _sync(path: Path) -> None:
    """What was written is on the disk, so that it survives a power cut too."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
