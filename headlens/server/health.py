"""How the server is: lines, models in memory, store, uptime, versions. Nothing about any user."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from headlens.errors import HeadlensError
from headlens.server.shelf import Held
from headlens.server.turns import Standing

if TYPE_CHECKING:
    from headlens.store import Store

PORT_VARIABLE = "HEADLENS_HEALTH_PORT"
PACKAGES = ("headlens", "streamlit", "torch", "transformers")
SIZE_SECONDS = 30.0
"""How long the store's size is remembered: it takes a look at every file."""
_STARTED = time.monotonic()


@dataclass(frozen=True)
class Health:
    """One look at the server.

    Attributes:
        status: ``ok``, or ``store`` where the store cannot be read.
        uptime_seconds: since HeadLens was first loaded in this process.
        switches, work: the lines for switches and for background work.
        refused: how many were turned away because a line was full.
        models: models in memory; those that are no names of the catalogue are called ``other``.
        result_bytes, results: small shared results in memory.
        store_bytes: None where it cannot be read.
        memory_bytes: resident memory of the server process.
        threads: of the server process.
        profile: of the limits.
        versions: by package.
    """

    status: str
    uptime_seconds: float
    switches: Standing
    work: Standing
    refused: int
    models: Sequence[Held]
    results: int
    result_bytes: int
    store_bytes: int | None
    memory_bytes: int
    threads: int
    profile: str
    versions: dict[str, str] = field(default_factory=dict)

    def to_json(self) -> str:
        """One JSON object."""
        return json.dumps(asdict(self))


class StoreSize:
    """Bytes of a store, looked at now and then."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._at, self._bytes = -SIZE_SECONDS, 0

    def __call__(self) -> int | None:
        """Bytes, or None where the store cannot be read."""
        if time.monotonic() - self._at > SIZE_SECONDS:
            try:
                self._bytes = self.store.size()
            except HeadlensError:
                return None
            self._at = time.monotonic()
        return self._bytes


def look(
    switches: Standing, work: Standing, refused: int, models: Sequence[Held], shared: Any, store_bytes: int | None
) -> Health:
    """Puts together what :class:`Health` says."""
    import psutil

    from headlens.server.limits import current
    from headlens.server.logs import model_word

    process = psutil.Process()
    return Health(
        "ok" if store_bytes is not None else "store",
        round(time.monotonic() - _STARTED, 1),
        switches,
        work,
        refused,
        [Held(model_word(held.name), held.bytes, held.kept) for held in models],
        len(shared),
        shared.bytes,
        store_bytes,
        process.memory_info().rss,
        process.num_threads(),
        current().profile,
        versions(),
    )


def versions() -> dict[str, str]:
    """Installed versions of what numbers depend on."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


def serve(measure: Callable[[], Health]) -> ThreadingHTTPServer | None:
    """Answers GET with :class:`Health` as JSON on loopback, at the port of ``HEADLENS_HEALTH_PORT``, if it is set.

    Raises:
        HeadlensError: no port number, or taken.
    """
    wanted = os.environ.get(PORT_VARIABLE, "")
    if not wanted:
        return None

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            try:
                body, code = measure().to_json().encode(), 200
            except HeadlensError as error:
                body, code = json.dumps({"status": "limits", "error": type(error).__name__}).encode(), 503
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Says nothing: whoever asks for the health is nobody's business."""

    try:
        server = ThreadingHTTPServer(("127.0.0.1", int(wanted)), Answer)
    except (OSError, ValueError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or "no port number"
        raise HeadlensError(f"{PORT_VARIABLE}={wanted[:20]}: {reason}; give a free port") from error
    threading.Thread(target=server.serve_forever, name="headlens-health", daemon=True).start()
    return server
