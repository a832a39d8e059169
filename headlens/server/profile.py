"""What a server may allow, and the two profiles: one's own machine, and a page that anybody may open."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from headlens.errors import HeadlensError

MB = 2**20


class LimitError(HeadlensError):
    """This server does not allow it; the message says what it allows."""


@dataclass(frozen=True)
class Limits:
    """What is allowed.

    Attributes:
        profile: ``own`` (one's own machine) or ``demo`` (a page that anybody may open).
        models: patterns of model names (``zoo-*``, ``owner/*``) and of whole paths (``/srv/*``); empty: any model.
        folders: whether models may be opened from any folder of the machine; if not, only those that the app has cut.
        downloads: whether models may be fetched from the hub.
        training: whether anything may be trained: recovery, the lab.
        progress: whether interview progress is kept on the server's disk, where all its visitors share it.
        prompt_characters, prompt_tokens: longest prompt.
        text_characters, upload_bytes: longest typed text, largest file of a user's own.
        waiting: longest queue of background computations; as many may wait for a switch.
        at_once: how many computations run at the same time, and how many switches are answered at the same time.
        model_bytes: memory for opened models; None: half of the machine's.
        result_bytes: memory for small shared results.
        store_bytes: disk for stored results, the least recently used ones go; None: unlimited.
    """

    profile: str = "own"
    models: tuple[str, ...] = ()
    folders: bool = True
    downloads: bool = True
    training: bool = True
    progress: bool = True
    prompt_characters: int = 50_000
    prompt_tokens: int = 1024
    text_characters: int = 50_000
    upload_bytes: int = 5 * MB
    waiting: int = 400
    at_once: int = max(1, (os.cpu_count() or 2) // 2)
    model_bytes: int | None = None
    result_bytes: int = 256 * MB
    store_bytes: int | None = None

    def check_model(self, name: str) -> None:
        """Refuses a model that is not on the list, or a folder where folders are not allowed.

        Raises:
            LimitError: names the models that are allowed.
        """
        if _below_own_cuts(name):
            return
        offers = f"it offers {', '.join(self.models) or 'models by name'}"
        path = is_path(name)
        if path and not self.folders:
            raise LimitError(f"this server opens no folders; {offers}")
        if self.models and not any(_matches(_resolved(name) if path else name, pattern) for pattern in self.models):
            raise LimitError(f"this server does not offer the model {name[:80]!r}; {offers}")

    def offers(self, name: str) -> bool:
        """Whether :meth:`check_model` lets it pass."""
        try:
            self.check_model(name)
        except LimitError:
            return False
        return True

    def check_downloads(self, name: str) -> None:
        """Refuses to fetch a model.

        Raises:
            LimitError: downloads are off.
        """
        if not self.downloads:
            raise LimitError(
                f"no model {name[:80]!r} on this server, and it downloads none; choose one that is offered"
            )

    def check_training(self) -> None:
        """Refuses to train anything.

        Raises:
            LimitError: training is off.
        """
        if not self.training:
            raise LimitError("training is switched off on this server; install HeadLens on your own machine to train")

    def check_size(self, what: str, size: int, most: int, unit: str) -> None:
        """Refuses what is too large; ``what`` begins the sentence.

        Raises:
            LimitError: ``size`` is more than ``most``.
        """
        if size > most:
            raise LimitError(f"{what} has {size:,} {unit}; at most {most:,} are read here")

    @property
    def upload_mb(self) -> int:
        """The largest upload in whole MB, rounded up, for Streamlit's widget; the exact limit holds behind it."""
        return -(-self.upload_bytes // MB)

    @property
    def upload_text(self) -> str:
        """The largest upload, for people."""
        return f"{self.upload_bytes // MB} MB" if self.upload_bytes % MB == 0 else f"{self.upload_bytes / 1024:,.0f} kB"

    def check_upload(self, name: str, size: int) -> None:
        """Refuses a file of ``size`` bytes that is too large.

        Raises:
            LimitError: it is.
        """
        if size > self.upload_bytes:
            shown = f"{size / MB:.1f} MB" if size >= MB else f"{size / 1024:.0f} kB"
            raise LimitError(f"{name[:80]}: {shown} is more than {self.upload_text}, the most that is read here")


PROFILES: Mapping[str, Limits] = {
    "own": Limits(),
    "demo": Limits(
        profile="demo",
        models=("zoo-*", "smollm2-135m", "minilm-l6"),
        folders=False,
        downloads=False,
        training=False,
        progress=False,
        prompt_characters=2_000,
        prompt_tokens=256,
        text_characters=10_000,
        upload_bytes=MB // 4,
        waiting=100,
        model_bytes=1500 * MB,
        result_bytes=128 * MB,
        store_bytes=2000 * MB,
    ),
}


def is_path(name: str) -> bool:
    """Whether a model's name leads to a file or folder of this machine."""
    if name.startswith((".", "~", "/")) or "\\" in name or name.lower().endswith(".gguf") or Path(name).is_absolute():
        return True
    try:
        return Path(name).exists()
    except (OSError, ValueError):  # too long, a NUL character
        return False


def _matches(name: str, pattern: str) -> bool:
    """Part by part, so that ``*`` does not reach over a slash: ``zoo-*`` is no owner on the hub."""
    parts, patterns = name.split("/"), pattern.split("/")
    return len(parts) == len(patterns) and all(map(fnmatch.fnmatchcase, parts, patterns))


def _resolved(name: str) -> str:
    try:
        return str(Path(name).expanduser().resolve())
    except (OSError, ValueError, RuntimeError):
        return name


def _below_own_cuts(name: str) -> bool:
    """Whether it is a folder that the app itself has written: those lie in the cache folder."""
    from headlens.paths import cache_dir

    try:
        root, path = (cache_dir() / "cuts").resolve(), Path(name).resolve()
    except (OSError, ValueError, RuntimeError):
        return False
    return path.is_relative_to(root) and path != root
