"""A page with one component and a small server for it: what the browser tests of all components share."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from playwright.sync_api import Browser, ConsoleMessage, Page, Request, expect

ROOT = Path(__file__).parents[2]
OPTIONS = {
    "server.address": "127.0.0.1",
    "server.headless": "true",
    "server.fileWatcherType": "none",
    "browser.gatherUsageStats": "false",
    "runner.postScriptGC": "false",
}


@contextmanager
def serve(script: Path) -> Iterator[str]:
    """Address of a page on a server of its own."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = [part for name, value in OPTIONS.items() for part in (f"--{name}", value)]
    command = [sys.executable, "-m", "streamlit", "run", str(script), "--server.port", str(port), *options]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    server = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    try:
        _wait_for(f"{url}/_stcore/health", server)
        yield url
    finally:
        server.terminate()
        server.wait(10)


def _wait_for(url: str, server: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + 60
    while time.monotonic() < end and server.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=2):
                return
        except OSError:
            time.sleep(0.1)
    raise RuntimeError(f"the stub page did not start (exit code {server.poll()})")


class StubPage:
    """A page with a component; notes what goes wrong on it and which hosts it asks."""

    def __init__(self, page: Page, url: str) -> None:
        self.page = page
        self.problems: list[str] = []
        self.hosts: set[str] = set()
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("console", self._note_message)
        page.on("request", self._note_host)
        page.goto(url)

    def _note_message(self, message: ConsoleMessage) -> None:
        # The tests themselves read pixels back, which Chromium remarks upon.
        if message.type in ("error", "warning") and "willReadFrequently" not in message.text:
            self.problems.append(message.text)

    def _note_host(self, request: Request) -> None:
        found = re.match(r"(?:https?|wss?)://([^/:]+)", request.url)
        if found:
            self.hosts.add(found[1])

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def expect_text(self, text: str) -> None:
        expect(self.page.get_by_text(text)).to_be_visible(timeout=20_000)


AnyPage = TypeVar("AnyPage", bound=StubPage)


@contextmanager
def opener(browser: Browser, url: str, kind: type[AnyPage]) -> Iterator[Callable[..., AnyPage]]:
    """Opens a stub page in fresh contexts; afterwards nothing may have gone wrong or to another host."""
    opened: list[AnyPage] = []

    def open_one(query: str = "", **context: Any) -> AnyPage:
        context.setdefault("viewport", {"width": 1000, "height": 1000})
        page = browser.new_context(**context).new_page()
        opened.append(kind(page, f"{url}/?{query}"))
        return opened[-1]

    yield open_one
    for each in opened:
        each.page.context.close()
        assert each.problems == []
        assert each.hosts == {"127.0.0.1"}
