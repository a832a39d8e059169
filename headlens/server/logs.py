"""What the server did, as JSON lines: numbers, names from our own lists, places in the code. Never a user's text.

Switched on by ``HEADLENS_LOG``: ``-`` writes to stderr, anything else is the file to append to.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
import traceback
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from headlens.errors import StoreError

VARIABLE = "HEADLENS_LOG"
FIELDS: Mapping[str, type | tuple[type, ...]] = {
    "kind": str,
    "status": str,
    "error": str,
    "at": list,
    "model": str,
    "limit": str,
    "logger": str,
    "level": str,
    "seconds": (int, float),
    "waited": (int, float),
    "bytes": int,
    "count": int,
    "place": int,
    "profile": str,
    "version": str,
    "number": int,
}
"""What an event may carry; anything else is left out. Texts are cut and must be plain words (see :func:`_plain`)."""
_FRAMES = 6
_lock = threading.Lock()
_file: IO[str] | None = None
_opened_for: str | None = None


def event(name: str, **facts: Any) -> None:
    """Writes one line, if logging is on. Fields that are not in :data:`FIELDS` or not plain are left out."""
    file = _target()
    if file is None:
        return
    line: dict[str, Any] = {"at_utc": datetime.now(UTC).isoformat(timespec="milliseconds"), "event": name}
    for field, value in facts.items():
        if field in FIELDS and isinstance(value, FIELDS[field]):
            kept = _kept(value)
            if kept is not None:
                line[field] = kept
    with _lock:
        try:
            file.write(json.dumps(line) + "\n")
            file.flush()
        except (OSError, ValueError):  # a full disk must not stop the server
            return


def is_on() -> bool:
    """Whether events are written anywhere."""
    return bool(os.environ.get(VARIABLE))


def error_facts(error: BaseException) -> dict[str, Any]:
    """What went wrong without its message, which may quote a user: the class, and where in the code."""
    frames = traceback.extract_tb(error.__traceback__)[-_FRAMES:]
    return {
        "error": type(error).__name__,
        "at": [f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in frames],
    }


def model_word(name: str) -> str:
    """A model's name if it is one of the catalogue, else ``other``: a path or hub id may tell who asks."""
    from headlens.models.catalogue import find

    return name if find(name) is not None else "other"


class _Records(logging.Handler):
    """Warnings and errors of libraries, without their words."""

    def emit(self, record: logging.LogRecord) -> None:
        """One event for each record."""
        found = error_facts(record.exc_info[1]) if record.exc_info and record.exc_info[1] is not None else {}
        event("log", logger=record.name, level=record.levelname, **found)


def start() -> None:
    """Sends warnings and errors of HeadLens and Streamlit here too; and, with logging on, keeps their words out of it.

    Raises:
        StoreError: the file cannot be written.
    """
    if _target() is None:
        return
    for name in ("headlens", "streamlit"):
        logger = logging.getLogger(name)
        if not any(isinstance(handler, _Records) for handler in logger.handlers):
            logger.addHandler(_Records(level=logging.WARNING))


def _target() -> IO[str] | None:
    global _file, _opened_for
    wanted = os.environ.get(VARIABLE, "")
    if wanted == "-":
        return sys.stderr
    if not wanted:
        return None
    with _lock:
        if _opened_for != wanted:
            try:
                path = Path(wanted).expanduser()
                path.parent.mkdir(parents=True, exist_ok=True)
                _file = path.open("a", encoding="utf-8")
            except OSError as error:
                raise StoreError(f"{VARIABLE}={wanted}: cannot be written ({error.strerror}); give another") from error
            _opened_for = wanted
        return _file


def _kept(value: Any) -> Any:
    if isinstance(value, bool | int | float):
        return round(value, 4) if isinstance(value, float) else value
    if isinstance(value, list):
        return [kept for item in value[:_FRAMES] if (kept := _kept(item)) is not None]
    return value if _plain(value) else None


def _plain(text: str) -> bool:
    """Whether it can only be a name of ours: short, ASCII, no line break."""
    return len(text) <= 120 and text.isascii() and text.isprintable()
