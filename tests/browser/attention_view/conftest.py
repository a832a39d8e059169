"""A server with the stub page, a Chromium, and a page object that speaks of the figure."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Locator, Page, Request, expect

STUB = Path(__file__).parent / "stub_app.py"
ROOT = Path(__file__).parents[3]
OPTIONS = {
    "server.address": "127.0.0.1",
    "server.headless": "true",
    "server.fileWatcherType": "none",
    "browser.gatherUsageStats": "false",
    "runner.postScriptGC": "false",
}


@pytest.fixture(scope="session")
def attention_url() -> Iterator[str]:
    """Address of the stub page on a server of its own."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = [part for name, value in OPTIONS.items() for part in (f"--{name}", value)]
    command = [sys.executable, "-m", "streamlit", "run", str(STUB), "--server.port", str(port), *options]
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


class Figure:
    """The stub page with its attention view."""

    def __init__(self, page: Page, url: str) -> None:
        self.page = page
        self.problems: list[str] = []
        self.hosts: set[str] = set()
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("console", self._note_message)
        page.on("request", self._note_host)
        page.goto(url)
        expect(self.figure).to_be_visible(timeout=30_000)

    def _note_message(self, message: ConsoleMessage) -> None:
        # The tests themselves read pixels back, which Chromium remarks upon.
        if message.type in ("error", "warning") and "willReadFrequently" not in message.text:
            self.problems.append(message.text)

    def _note_host(self, request: Request) -> None:
        found = re.match(r"(?:https?|wss?)://([^/:]+)", request.url)
        if found:
            self.hosts.add(found[1])

    @property
    def figure(self) -> Locator:
        return self.page.get_by_role("figure").first

    @property
    def map(self) -> Locator:
        return self.page.get_by_role("application").first

    @property
    def canvas(self) -> Locator:
        return self.figure.locator("canvas.av-canvas")

    def box(self, part: Locator | None = None) -> Any:
        """Where a part is on the page; the canvas if none is named."""
        found = (self.canvas if part is None else part).bounding_box()
        assert found is not None
        return found

    @property
    def tip(self) -> Locator:
        return self.figure.locator(".av-tip")

    @property
    def live(self) -> Locator:
        return self.figure.locator("[aria-live=polite]")

    def thumbnail(self, label: str) -> Locator:
        return self.figure.get_by_role("button", name=re.compile(rf"^{re.escape(label)},"))

    def token(self, side: str, position: int) -> Locator:
        return self.figure.get_by_role("button", name=re.compile(rf"^{side} '.*' \({position}\)$"))

    def label(self, axis: str, index: int) -> Locator:
        return self.figure.locator(f".av-{axis} .av-label[data-index='{index}']")

    def cell(self) -> float:
        """Size of a cell in pixels."""
        return self.figure.locator(".av-rows").evaluate(
            "(e) => parseFloat(getComputedStyle(e).getPropertyValue('--av-cell'))"
        )

    def point(self, query: int, key: int) -> None:
        """Moves the mouse over a cell of the map."""
        box, size = self.box(), self.cell()
        self.page.mouse.move(box["x"] + (key + 0.5) * size, box["y"] + (query + 0.5) * size)

    def pixel(self, query: int, key: int) -> list[int]:
        """Colour [r, g, b, alpha] on the canvas, near the corner of a cell so that no label or mark is met."""
        return self.canvas.evaluate(
            "(c, [x, y]) => [...c.getContext('2d').getImageData(x, y, 1, 1).data]",
            [round((key + 0.3) * self.cell()), round((query + 0.3) * self.cell())],
        )

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def shows(self, label: str) -> None:
        expect(self.figure).to_have_attribute("data-painted", label, timeout=10_000)

    def expect_text(self, text: str) -> None:
        expect(self.page.get_by_text(text)).to_be_visible(timeout=10_000)


OpenFigure = Callable[..., Figure]


@pytest.fixture
def open_figure(browser: Browser, attention_url: str) -> Iterator[OpenFigure]:
    """Opens the stub page in a fresh context; afterwards nothing may have gone wrong or to another host."""
    opened: list[Figure] = []

    def open_one(query: str = "", **context: Any) -> Figure:
        context.setdefault("viewport", {"width": 1000, "height": 1000})
        page = browser.new_context(**context).new_page()
        opened.append(Figure(page, f"{attention_url}/?{query}"))
        return opened[-1]

    yield open_one
    for figure in opened:
        figure.page.context.close()
        assert figure.problems == []
        assert figure.hosts == {"127.0.0.1"}
