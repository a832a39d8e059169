"""A server with the stub page, a Chromium, and a page object that speaks of heads."""

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
from playwright.sync_api import Browser, Locator, Page, Request, expect

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
def stub_url() -> Iterator[str]:
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


class Grid:
    """The stub page with its head grid."""

    def __init__(self, page: Page, url: str) -> None:
        self.page = page
        self.problems: list[str] = []
        self.hosts: set[str] = set()
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("console", lambda m: self.problems.append(m.text) if m.type in ("error", "warning") else None)
        page.on("request", self._note_host)
        page.goto(url)
        expect(self.grid()).to_be_visible(timeout=30_000)

    def _note_host(self, request: Request) -> None:
        found = re.match(r"(?:https?|wss?)://([^/:]+)", request.url)
        if found:
            self.hosts.add(found[1])

    def grid(self, name: str = "Heads") -> Locator:
        return (
            self.page.get_by_role("grid", name=name, exact=True)
            if name != "Heads"
            else self.page.get_by_role("grid").first
        )

    def head(self, label: str) -> Locator:
        return self.page.get_by_role("gridcell").get_by_role("button", name=re.compile(rf"^{re.escape(label)},"))

    def row(self, layer: int) -> Locator:
        return self.page.get_by_role("rowheader").get_by_role("button", name=f"Layer {layer},")

    def column(self, head: int) -> Locator:
        return self.page.get_by_role("columnheader").get_by_role("button", name=f"Head {head},")

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def focused(self) -> str:
        """Accessible name of the focused button."""
        return self.page.evaluate(
            "() => { let e = document.activeElement; while (e?.shadowRoot) e = e.shadowRoot.activeElement;"
            " return e?.getAttribute('aria-label') ?? '' }"
        )

    def shown_off(self) -> set[str]:
        """Labels of the heads that the browser shows as off, cut ones left out."""
        names = (
            self.page.get_by_role("gridcell")
            .get_by_role("button", pressed=True)
            .evaluate_all("(all) => all.filter((b) => !b.ariaDisabled).map((b) => b.getAttribute('aria-label'))")
        )
        return {name.split(",")[0] for name in names}

    def expect_off(self, *labels: str) -> None:
        """Python and the browser both have exactly these heads off."""
        text = f"off={len(labels)} [{' '.join(sorted(labels))}]"
        expect(self.page.get_by_text(text, exact=True)).to_be_visible(timeout=20_000)
        end = time.monotonic() + 10
        while self.shown_off() != set(labels) and time.monotonic() < end:
            self.page.wait_for_timeout(50)
        assert self.shown_off() == set(labels)

    def expect_text(self, text: str) -> None:
        expect(self.page.get_by_text(text)).to_be_visible(timeout=20_000)

    def click_button(self, name: str) -> None:
        self.page.get_by_role("button", name=name, exact=True).click()


OpenGrid = Callable[..., Grid]


@pytest.fixture
def open_grid(browser: Browser, stub_url: str) -> Iterator[OpenGrid]:
    """Opens the stub page in a fresh context; afterwards nothing may have gone wrong or to another host."""
    opened: list[Grid] = []

    def open_one(query: str = "", **context: Any) -> Grid:
        context.setdefault("viewport", {"width": 1000, "height": 1000})
        page = browser.new_context(**context).new_page()
        opened.append(Grid(page, f"{stub_url}/?{query}"))
        return opened[-1]

    yield open_one
    for grid in opened:
        grid.page.context.close()
        assert grid.problems == []
        assert grid.hosts == {"127.0.0.1"}
