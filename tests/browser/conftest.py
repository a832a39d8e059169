"""One Chromium for all browser tests, and the app on a server of its own with small models and an empty cache."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Locator, Page, Playwright, Request, expect, sync_playwright

from tests.small_models import save_gpt2

ROOT = Path(__file__).resolve().parents[2]
BROWSER_FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
REQUIRE = "HEADLENS_REQUIRE_BROWSER"
SLOW = 90_000
"""Milliseconds that a busy machine may take for something big; nothing waits so long where nothing is wrong."""


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Felt speeds that tests measured, in seconds, at the end of the run's log."""
    for report in terminalreporter.stats.get("passed", []):
        for name, value in report.user_properties:
            if report.when == "call":
                terminalreporter.write_line(f"felt speed: {name}: {value} s")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium of the system, or playwright's own; without one the tests are skipped, or fail where one is required."""
    with sync_playwright() as playwright:
        path = browser_path(playwright)
        if path is None:
            message = f"NO BROWSER: none of {', '.join(NAMES)} is installed, nor playwright's own; nothing was tested"
            if os.environ.get(REQUIRE) == "1":
                pytest.fail(f"{message}, and {REQUIRE}=1 asks for one")
            pytest.skip(f"{message} (playwright install chromium gets one; {REQUIRE}=1 makes this a failure)")
        started = playwright.chromium.launch(executable_path=path, args=BROWSER_FLAGS)
        yield started
        started.close()


def browser_path(playwright: Playwright) -> str | None:
    found = next(filter(None, map(shutil.which, NAMES)), None)
    own = playwright.chromium.executable_path
    return found or (own if Path(own).exists() else None)


class AppServer:
    """The app in a process of its own.

    Attributes:
        cache: folder for its store and models.
        url: address without a path.
        started: ``time.monotonic()`` of the latest start.
    """

    def __init__(self, cache: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        self.cache = cache
        self.url = f"http://127.0.0.1:{self.port}"
        self.started = 0.0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def environment(self) -> dict[str, str]:
        """For the server, and for commands that shall see the same cache."""
        return {**os.environ, "HEADLENS_CACHE": str(self.cache), "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}

    def start(self) -> None:
        """Starts the server and waits until it answers."""
        command = [sys.executable, "-m", "streamlit", "run", str(ROOT / "app.py"), "--server.port", str(self.port)]
        self.started = time.monotonic()
        self.cache.mkdir(parents=True, exist_ok=True)
        with (self.cache / "server.log").open("ab") as log:
            self._process = subprocess.Popen(command, cwd=ROOT, env=self.environment, stdout=log, stderr=log)
        while self._process.poll() is None and time.monotonic() < self.started + 60:
            try:
                with urllib.request.urlopen(f"{self.url}/_stcore/health", timeout=2):
                    return
            except OSError:
                time.sleep(0.1)
        raise RuntimeError(f"the app did not start: {(self.cache / 'server.log').read_text()[-2000:]}")

    def kill(self) -> None:
        """Ends the server as a crash would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(10)

    def link(self, page: str = "", **query: str) -> str:
        """Address of a page in a state."""
        return f"{self.url}/{page}?{urllib.parse.urlencode(query)}"


class App:
    """A page of the app in a browser, in words of heads."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.problems: list[str] = []
        self.hosts: set[str] = set()
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("console", self._note_message)
        page.on("request", self._note_host)

    def _note_message(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.problems.append(f"{message.text} {message.location.get('url', '')}")

    def _note_host(self, request: Request) -> None:
        found = re.match(r"(?:https?|wss?)://([^/:]+)", request.url)
        if found:
            self.hosts.add(found[1])

    def open(self, url: str) -> App:
        """Goes to the address and waits until the map is coloured."""
        self.page.goto(url)
        self.expect_coloured()
        return self

    @property
    def heads(self) -> Locator:
        return self.page.get_by_role("gridcell").get_by_role("button")

    def head(self, label: str) -> Locator:
        return self.page.get_by_role("gridcell").get_by_role("button", name=re.compile(rf"^{re.escape(label)},"))

    def expect_coloured(self) -> None:
        """Every head has a score in its name and a colour."""
        expect(self.heads.first).to_have_accessible_name(re.compile(r", -?\d[\d.e+-]*, (on|off)$"), timeout=SLOW)
        colours = self.heads.evaluate_all("(all) => all.map((b) => getComputedStyle(b).backgroundColor)")
        assert len(set(colours)) > 2, colours

    def expect_finished(self) -> None:
        """No work goes on any more."""
        expect(self.page.get_by_role("progressbar")).to_have_count(0, timeout=SLOW)
        self.expect_still()

    def expect_still(self) -> None:
        """The page's script is not running."""
        expect(self.page.get_by_test_id("stApp")).to_have_attribute(
            "data-test-script-state", "notRunning", timeout=SLOW
        )

    def expect_off(self, *labels: str) -> None:
        """Exactly these heads are off."""
        off = self.page.get_by_role("gridcell").get_by_role("button", pressed=True)
        expect(off).to_have_count(len(labels), timeout=SLOW)
        for label in labels:
            expect(self.head(label)).to_have_attribute("aria-pressed", "true")

    def metric(self, label: str = "Loss") -> Locator:
        return (
            self.page.get_by_test_id("stMetric")
            .filter(has_text=re.compile(f"^{label}"))
            .get_by_test_id("stMetricValue")
        )

    def expect_metric(self, value: float, label: str = "Loss", tolerance: float = 1e-4) -> None:
        """The figure becomes this number."""
        expect(self.metric(label)).to_be_visible(timeout=SLOW)
        end, shown = time.monotonic() + SLOW / 1000, float("nan")
        while time.monotonic() < end:
            shown = float(self.metric(label).inner_text())
            if abs(shown - value) <= tolerance:
                return
            self.page.wait_for_timeout(50)
        raise AssertionError(f"{label} shows {shown}, not {value}")

    def focused(self) -> str:
        """Accessible name, or text, of what has the focus."""
        return self.page.evaluate(
            "() => { let e = document.activeElement; while (e?.shadowRoot) e = e.shadowRoot.activeElement;"
            " return e?.getAttribute('aria-label') ?? e?.innerText ?? '' }"
        )

    def screenshot(self, path: Path) -> None:
        self.page.screenshot(path=path)


OpenApp = Callable[..., App]


@pytest.fixture(scope="session")
def small_model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Folder of a GPT-2 with 3 layers of 4 heads."""
    return str(save_gpt2(tmp_path_factory.mktemp("browser-models") / "small-gpt2"))


@pytest.fixture(scope="session")
def long_model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Folder of a GPT-2 with 40 layers of 12 heads, whose exact sweep takes long enough to be cancelled."""
    return str(save_gpt2(tmp_path_factory.mktemp("browser-models") / "long-gpt2", layers=40, heads=12, seed=1))


@pytest.fixture(scope="session")
def server(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AppServer]:
    """The app, with a cache folder of its own."""
    started = AppServer(tmp_path_factory.mktemp("browser-cache"))
    started.start()
    yield started
    started.kill()


@pytest.fixture
def open_app(browser: Browser) -> Iterator[OpenApp]:
    """Opens an address in a fresh context; afterwards nothing may have gone wrong or to another host."""
    opened: list[App] = []

    def open_one(url: str, **context: Any) -> App:
        context.setdefault("viewport", {"width": 1280, "height": 900})
        opened.append(App(browser.new_context(**context).new_page()))
        return opened[-1].open(url)

    yield open_one
    for app in opened:
        app.page.context.close()
        # A deep link makes Streamlit ask for its health below the page's path first; the answer 404 is harmless.
        known = re.compile(r"/(attention|switchboard)/_stcore/(health|host-config)$")
        assert [problem for problem in app.problems if not known.search(problem)] == []
        assert app.hosts == {"127.0.0.1"}
