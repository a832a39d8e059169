"""What has been answered: a log that only grows, one line an event, so that nothing is lost and logs can be merged.

Every answer is one appended line (a single write), so two tabs or two programs that answer at once both keep theirs,
and a crash costs at most the line that was being written. What a learner knows is worked out from the log by
:mod:`headlens.interview.schedule` and :mod:`headlens.interview.stats`. What was typed is not kept, only its mark.
"""

from __future__ import annotations

import json
import os
import threading
import uuid
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, TypeAdapter

from headlens.errors import DataError, StoreError
from headlens.interview.schema import Id
from headlens.paths import data_dir
from headlens.server import limits

SCHEMA = 1
MAX_IMPORT = 20 * 2**20
"""Longest export that is read, in bytes (some 80,000 answers)."""
MAX_FILE = 100 * 2**20  # bytes, half a million answers; a longer file is not read
_MAX_LINE = 20_000
_FIRST, _LAST = (datetime(year, 1, 1, tzinfo=UTC) for year in (2000, 2100))  # other times are mistakes
Where = Literal["question", "drill", "mock"]


class _Event(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    id: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")] = Field(default_factory=lambda: uuid.uuid4().hex)
    at: Annotated[AwareDatetime, Field(ge=_FIRST, lt=_LAST)] = Field(default_factory=lambda: datetime.now(UTC))


class Answer(_Event):
    """One answer. ``run`` is the mock interview it belongs to; ``model`` what its number was computed from."""

    type: Literal["answer"] = "answer"
    question: Id
    score: Annotated[float, Field(ge=0, le=1)]
    right: bool
    where: Where
    seconds: Annotated[float, Field(ge=0, le=86_400)] | None = None
    run: str | None = None
    model: Annotated[str, Field(max_length=500)] | None = None


class Doubt(_Event):
    """The learner says that a right answer was guessed: it counts as not known."""

    type: Literal["doubt"] = "doubt"
    answer: str


class MockStart(_Event):
    """A mock interview began; its id is the run's."""

    type: Literal["mock-start"] = "mock-start"
    questions: tuple[Id, ...]
    seconds: Annotated[float, Field(gt=0, le=86_400)]


class MockEnd(_Event):
    """A mock interview ended, by its last answer, the clock or the learner."""

    type: Literal["mock-end"] = "mock-end"
    run: str


Event = Annotated[Answer | Doubt | MockStart | MockEnd, Field(discriminator="type")]
_ADAPTER: TypeAdapter[Event] = TypeAdapter(Event)


class Log(Protocol):
    """Where events are kept."""

    @property
    def damaged(self) -> int:
        """Lines that could not be read."""
        ...

    def events(self) -> tuple[Event, ...]:
        """All events, the oldest first."""
        ...

    def add(self, *events: Event) -> None:
        """Keeps new events; raises StoreError where that is not possible."""
        ...


class MemoryLog:
    """Progress of one browser session; gone when it ends."""

    damaged = 0

    def __init__(self) -> None:
        self._events: list[Event] = []

    def events(self) -> tuple[Event, ...]:
        """See :class:`Log`."""
        return tuple(self._events)

    def add(self, *events: Event) -> None:
        """See :class:`Log`."""
        self._events = _ordered([*self._events, *events])


class DiskLog:
    """Progress in a file that outlives the program; shared by all sessions of this user. Safe to use from threads."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = progress_file() if path is None else path
        self.damaged = 0
        self._seen: tuple[int, int, int] | None = None
        self._events: tuple[Event, ...] = ()
        self._lock = threading.Lock()

    def events(self) -> tuple[Event, ...]:
        """See :class:`Log`; the file is read again when it has changed.

        Raises:
            StoreError: the file is there but cannot be read, or is longer than ``MAX_FILE``.
        """
        with self._lock:
            try:
                found = self.path.stat()
                if found.st_size > MAX_FILE:
                    raise StoreError(f"{self.path}: too large for progress; move the file aside")
                if (state := (found.st_ino, found.st_size, found.st_mtime_ns)) != self._seen:
                    self._events, self.damaged = _read_lines(self.path.read_bytes())
                    self._seen = state
            except FileNotFoundError:
                self._seen, self._events, self.damaged = None, (), 0
            except OSError as error:
                raise StoreError(f"{self.path}: progress cannot be read ({error.strerror})") from error
            return self._events

    def add(self, *events: Event) -> None:
        """See :class:`Log`: each event is one line and one write at the end of the file."""
        lines = [event.model_dump_json().encode() + b"\n" for event in events]
        with self._lock:
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                handle = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o600)
                try:
                    if _torn(handle):
                        lines[:1] = [b"\n" + line for line in lines[:1]]
                    for line in lines:
                        os.write(handle, line)
                    os.fsync(handle)
                finally:
                    os.close(handle)
            except OSError as error:
                hint = "free space or set HEADLENS_DATA"
                raise StoreError(f"{self.path}: progress cannot be kept ({error.strerror}); {hint}") from error

    def clear(self) -> Path | None:
        """Starts afresh; the old log stays beside it under another name, which is returned."""
        with self._lock:
            if not self.path.exists():
                return None
            kept = self.path.with_name(f"{self.path.stem}-until-{datetime.now(UTC):%Y%m%d-%H%M%S-%f}.jsonl")
            try:
                self.path.replace(kept)
            except OSError as error:
                raise StoreError(f"{self.path}: cannot be moved aside ({error.strerror})") from error
            return kept


def progress_file() -> Path:
    """Where this user's progress is kept."""
    return data_dir() / "interview" / "progress.jsonl"


def _torn(handle: int) -> bool:
    """Whether the last line was not written to its end."""
    size = os.lseek(handle, 0, os.SEEK_END)
    if not size:
        return False
    os.lseek(handle, size - 1, os.SEEK_SET)
    return os.read(handle, 1) != b"\n"


def _read_lines(content: bytes) -> tuple[tuple[Event, ...], int]:
    found, damaged = list[Event](), 0
    for line in content.split(b"\n"):
        if not line.strip():
            continue
        try:
            if len(line) > _MAX_LINE:
                raise ValueError("too long for a line of progress")
            found.append(_ADAPTER.validate_json(line))
        except ValueError:
            damaged += 1
    return tuple(_ordered(found)), damaged


def _ordered(events: Iterable[Event]) -> list[Event]:
    """Each event once, in the order of time."""
    return sorted({event.id: event for event in events}.values(), key=lambda event: (event.at, event.id))


def export(log: Log) -> str:
    """The whole log as one JSON object, for a backup or another computer."""
    events = [json.loads(event.model_dump_json()) for event in log.events()]
    return json.dumps({"headlens": "interview progress", "schema": SCHEMA, "events": events}, indent=1) + "\n"


def merge(log: Log, text: bytes) -> tuple[int, int]:
    """Adds the events of an export that the log does not have yet.

    Returns:
        How many were new, and how many were left out because they could not be read.

    Raises:
        DataError: this is not an export; LimitError: larger than this server allows.
        StoreError: the log cannot be written.
    """
    limits.current().check_size("the file", len(text), 4 * limits.current().upload_bytes, "bytes")
    if len(text) > MAX_IMPORT:
        raise DataError(f"the file is larger than {MAX_IMPORT // 2**20} MB; that is no export of HeadLens")
    try:
        whole: Any = json.loads(text)
        rows = whole["events"]
        if whole["headlens"] != "interview progress" or not isinstance(rows, list):
            raise DataError("this file is no export of interview progress")
        if whole["schema"] != SCHEMA:
            raise DataError(f"this export has the form {whole['schema']!r}; this version reads {SCHEMA}")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DataError("this file is no export of interview progress; take one made by Export") from error
    known, damaged = {event.id for event in log.events()}, 0
    new: dict[str, Event] = {}
    for row in rows:
        try:
            event = _ADAPTER.validate_json(json.dumps(row))
        except ValueError:
            damaged += 1
            continue
        if event.id not in known:
            new[event.id] = event
    if new:
        log.add(*new.values())
    return len(new), damaged
