"""The prune page in a real browser: curve, budget, cut, speed, recovery, and what is taken home works elsewhere."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import SLOW, App, AppServer

pytestmark = pytest.mark.browser
HARMLESS = re.compile(r"/prune/_stcore/(health|host-config)$")
"""A deep link makes Streamlit ask below the page's path first; the answer 404 is harmless."""
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")


@pytest.fixture(scope="module")
def app(browser: Browser, server: AppServer) -> Iterator[App]:
    """The page, with heads ordered by their output matrices; the tests below go down it one after the other."""
    opened = App(browser.new_context(viewport={"width": 1280, "height": 1000}).new_page())
    opened.page.goto(server.link("prune", model="zoo-gpt2", method="magnitude"))
    yield opened
    opened.page.context.close()
    assert [problem for problem in opened.problems if not HARMLESS.search(problem)] == []
    assert opened.hosts == {"127.0.0.1"}


@pytest.fixture(scope="module")
def cut(app: App, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The ZIP of the cut, unpacked: from the curve over a budget to the download."""
    page = app.page
    page.get_by_role("button", name="Draw the curve").click(timeout=2 * SLOW)
    expect(page.locator(".js-plotly-plot").first).to_be_visible(timeout=2 * SLOW)
    expect(page.get_by_text(re.compile("random orders")).first).to_be_visible(timeout=SLOW)
    budget = page.get_by_label("Loss may rise by")
    budget.fill("30")
    budget.press("Enter")
    expect(page.get_by_text(re.compile(r"^Within loss\+30%"))).to_be_visible(timeout=SLOW)
    page.get_by_text("a share that I choose").click()
    expect(page.get_by_text("3 of 32 heads")).to_be_visible(timeout=SLOW)
    app.expect_still()
    page.get_by_role("button", name="Cut these 3 heads out").click()
    expect(page.get_by_text(re.compile("computed in float64 on the same weights"))).to_be_visible(timeout=SLOW)
    app.expect_still()
    saved = tmp_path_factory.mktemp("downloads")
    with zipfile.ZipFile(download(page, re.compile("Cut model"), saved)) as archive:
        assert not any(name.startswith("/") or ".." in name for name in archive.namelist())
        archive.extractall(saved)
    return next(path for path in saved.iterdir() if path.is_dir())


def download(page: Page, name: re.Pattern[str], into: Path) -> Path:
    """Presses a download button; the file."""
    button = page.get_by_role("button", name=name)
    expect(button).to_be_visible(timeout=2 * SLOW)
    with page.expect_download(timeout=SLOW) as waiting:
        button.click()
    path = into / waiting.value.suggested_filename
    waiting.value.save_as(path)
    return path


def test_what_was_downloaded_is_a_smaller_model(app: App, cut: Path, server: AppServer) -> None:
    """Opened by other processes; nothing in it tells where it was made."""
    code = f"import headlens; print(sum(p.numel() for p in headlens.load({str(cut)!r}).parameters()))"

    def run(*arguments: str) -> str:
        command = [sys.executable, *arguments]
        return subprocess.run(command, env=server.environment, capture_output=True, text=True, check=True).stdout

    shown = app.page.get_by_test_id("stMetric").filter(has_text="Parameters").get_by_test_id("stMetricValue")
    assert int(run("-c", code)) == int(shown.inner_text().replace(",", ""))
    measured = json.loads(run("-m", "headlens", "evaluate", str(cut), "--limit", "4", "--json"))
    assert 0 < measured["value"] < 4
    for name in ("headlens.json", "README.md", "config.json"):
        text = (cut / name).read_text(encoding="utf-8")
        assert str(server.cache) not in text
        assert str(Path.home()) not in text


def test_speed_is_measured(app: App, cut: Path) -> None:
    app.page.get_by_role("button", name="Measure speed").click()
    told = app.page.get_by_test_id("stMarkdownContainer").filter(has_text="noise")  # the table's copy is not visible
    expect(told.first).to_be_visible(timeout=2 * SLOW)
    app.expect_finished()


def test_a_recovery_that_is_cancelled_keeps_its_best(app: App, cut: Path, server: AppServer) -> None:
    page = app.page
    steps = page.get_by_label("Steps, at most")
    steps.fill("1500")
    steps.press("Enter")
    app.expect_still()
    page.get_by_role("button", name=re.compile("Recover$")).click()
    cancel = page.get_by_role("button", name="Cancel")
    expect(cancel).to_be_visible(timeout=SLOW)
    told = server.cache / "cuts" / f"{cut.name}-recovered" / "headlens.json"
    for _ in range(2 * SLOW // 100):
        if told.is_file():
            break
        page.wait_for_timeout(100)
    cancel.click()
    expect(page.get_by_text(re.compile(r"The best so far, step \d+, is kept"))).to_be_visible(timeout=SLOW)
    expect(page.get_by_role("button", name="Go on")).to_be_visible()
    recovery = json.loads(told.read_text(encoding="utf-8"))["recovery"]
    assert recovery["finished"] is False
    assert recovery["watched_best"] < recovery["watched_before"]


def test_the_report_needs_nothing_else(app: App, cut: Path, browser: Browser, tmp_path: Path) -> None:
    """One file, read without a network in light and dark, and on paper."""
    app.page.get_by_role("button", name="Write the report (HTML)").click()
    path = download(app.page, re.compile(r"Report \(HTML\)$"), tmp_path)
    text = path.read_text(encoding="utf-8")
    assert "headlens prune zoo-gpt2 --off" in text
    assert str(Path.home()) not in text
    backgrounds = set()
    for scheme in SCHEMES:
        page = browser.new_context(color_scheme=scheme, offline=True).new_page()
        asked: list[str] = []
        errors: list[str] = []
        page.on("request", lambda request, asked=asked: asked.append(request.url))
        page.on("pageerror", lambda error, errors=errors: errors.append(str(error)))
        page.goto(path.as_uri())
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        backgrounds.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
        assert [url for url in asked if url != path.as_uri() and not url.startswith("data:")] == []
        assert errors == []
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        if scheme == "light":
            assert page.pdf()[:5] == b"%PDF-"
        page.context.close()
    assert len(backgrounds) == 2
