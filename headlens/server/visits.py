"""How many sessions look at the app, so that pages ask less often the more there are."""

from __future__ import annotations

import os
import threading
import time

PRESENT_SECONDS = 40.0
SESSIONS_A_CORE = 2
"""So many sessions a core may poll at full speed: a polled page costs some 60 ms of a core to draw."""
MOST_SECONDS = 10.0
"""Longest pause between two looks; jobs that nobody looks at for three times as long stop."""


class Visits:
    """Sessions by when they were last seen; names only, nothing about them."""

    def __init__(self) -> None:
        self._seen: dict[str, float] = {}
        self._lock = threading.Lock()

    def seen(self, session: str) -> None:
        """A page of that session is being drawn."""
        now = time.monotonic()
        with self._lock:
            self._seen[session] = now
            if len(self._seen) > 2_000:
                self._seen = {name: at for name, at in self._seen.items() if now - at < PRESENT_SECONDS}

    @property
    def present(self) -> int:
        """Sessions that were seen lately."""
        now = time.monotonic()
        with self._lock:
            return sum(now - at < PRESENT_SECONDS for at in self._seen.values())

    def pause(self, seconds: float) -> float:
        """Pause between two looks of a page, ``seconds`` where there is room for everybody, longer where not."""
        crowd = self.present / (SESSIONS_A_CORE * (os.cpu_count() or 1))
        return max(seconds, min(MOST_SECONDS, seconds * crowd))
