"""Runs a page as a browser that polls: work that nobody looks at stops by itself."""

from __future__ import annotations

import time

from streamlit.testing.v1 import AppTest


def watch(app: AppTest, seconds: float = 240) -> AppTest:
    """Runs the page again and again until its background work has ended."""
    from headlens.ui.cache import jobs

    end = time.monotonic() + seconds
    while jobs().running() and time.monotonic() < end:
        time.sleep(0.5)
        app.run()
    return app.run()
