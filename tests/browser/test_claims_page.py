"""The claims page in a real browser: progressive, cancelled, exported, and one "try it yourself"."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from headlens.claims.registry import REGISTRY
from tests.browser.conftest import SLOW, App, AppServer

pytestmark = pytest.mark.browser
HARMLESS = re.compile(r"/claims/_stcore/(health|host-config)$")
"""A deep link makes Streamlit ask below the page's path first; the answer 404 is harmless."""
VERDICT = re.compile(r"(holds|fails|mixed|not measurable here)$")


@pytest.fixture
def page(browser: Browser, server: AppServer, small_model: str) -> Iterator[Page]:
    """The claims of a small model; they take some ten seconds, so there is something to cancel."""
    app = App(browser.new_context(viewport={"width": 1280, "height": 1000}).new_page())
    app.page.set_default_timeout(SLOW)
    app.page.goto(server.link("claims", model=small_model))
    yield app.page
    app.page.context.close()
    assert [problem for problem in app.problems if not HARMLESS.search(problem)] == []
    assert app.hosts == {"127.0.0.1"}


def test_claims_come_one_by_one_are_stopped_exported_and_tried(page: Page, tmp_path: Path) -> None:
    start = page.get_by_role("button", name=re.compile(rf"Check {len(REGISTRY)} claims \(about \d"))
    expect(start).to_be_visible(timeout=2 * SLOW)
    expect(page.get_by_role("heading", level=3)).to_have_count(len(REGISTRY))
    start.focus()
    page.keyboard.press("Enter")
    bar = page.get_by_role("progressbar")
    expect(bar).to_be_visible(timeout=SLOW)
    badges = page.get_by_test_id("stMain").get_by_text(VERDICT)
    expect(badges.first).to_be_visible(timeout=SLOW)
    expect(bar).to_be_visible()  # the first verdict is there, and the work goes on
    expect(page.get_by_text("Not checked yet", exact=False).first).to_be_visible()
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_text("Stopped.")).to_be_visible(timeout=SLOW)
    expect(bar).to_have_count(0)
    for ending, sign in ((".md", "# Claims about head pruning"), (".html", "<!doctype html>"), (".csv", "model,id,")):
        with page.expect_download(timeout=SLOW) as waiting:
            page.get_by_role("button", name=f"Download {ending[1:].upper()}").click()
        path = tmp_path / f"claims{ending}"
        waiting.value.save_as(path)
        assert path.read_text(encoding="utf-8").startswith(sign)
    page.get_by_role("button", name="Run it in the lab").or_(
        page.get_by_role("button", name="See the runs")
    ).first.click()
    expect(page.get_by_role("heading", name="Learn with few heads, or keep few of many?")).to_be_visible(timeout=SLOW)
    assert "/lab?" in page.url
    section = page.get_by_role("radiogroup", name="Part of this page").get_by_role("radio", checked=True)
    expect(section).to_have_accessible_name(re.compile("Experiment|Language model"), timeout=SLOW)
