"""The lab in a real browser at a small size: live curves, a verdict, and that closing the page ends the processes."""

from __future__ import annotations

import re
import time

import psutil
import pytest
from playwright.sync_api import Browser, expect

from tests.browser.conftest import SLOW, App, AppServer

pytestmark = pytest.mark.browser
HARMLESS = re.compile(r"/lab/_stcore/(health|host-config)$")
"""A deep link makes Streamlit ask below the page's path first; the answer 404 is harmless."""


def _workers(server: AppServer) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter(["cmdline", "environ"]):
        if "headlens.lab.worker" in (process.info["cmdline"] or []):
            cache = (process.info["environ"] or {}).get("HEADLENS_CACHE")
            found += [process] if cache == str(server.cache) else []
    return found


def test_a_study_runs_and_a_closed_page_ends_it(browser: Browser, server: AppServer, small_model: str) -> None:
    app = App(browser.new_context(viewport={"width": 1280, "height": 1000}).new_page())
    page = app.page
    page.goto(server.link("lab", model=small_model))
    expect(page.get_by_role("heading", name="Learn with few heads, or keep few of many?")).to_be_visible(timeout=SLOW)
    page.get_by_label("Distances back that make the target").fill("1, 2, 3, 5")
    page.keyboard.press("Enter")
    seeds = page.get_by_label("Seeds (runs of each kind)")
    seeds.fill("2")
    seeds.press("Enter")
    steps = page.get_by_label("Steps", exact=True)
    steps.fill("40")
    steps.press("Enter")
    expect(page.get_by_text("4 runs")).to_be_visible(timeout=SLOW)
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.get_by_role("progressbar").first).to_be_visible(timeout=SLOW)
    own = page.get_by_text("8 heads pruned to 4, no retraining: ").first
    expect(own).to_be_visible(timeout=2 * SLOW)
    expect(page.get_by_text("Loss while training, one line a seed").first).to_be_visible()
    expect(page.get_by_role("button", name="Cancel")).to_have_count(0, timeout=3 * SLOW)
    assert [problem for problem in app.problems if not HARMLESS.search(problem)] == []
    assert app.hosts == {"127.0.0.1"}
    steps.fill("20000")
    steps.press("Enter")
    page.get_by_role("button", name="Run", exact=True).click()
    end = time.monotonic() + 2 * SLOW / 1000
    while not _workers(server) and time.monotonic() < end:
        time.sleep(0.2)
    assert _workers(server)
    page.context.close()
    end = time.monotonic() + SLOW / 1000
    while _workers(server) and time.monotonic() < end:
        time.sleep(0.5)
    assert not _workers(server)
