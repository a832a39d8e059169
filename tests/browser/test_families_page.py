"""Families and skills in a real browser: two models side by side, and a skill that goes with the switches."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.conftest import ROOT, SLOW, App, AppServer

pytestmark = pytest.mark.browser
MODELS = ("zoo-gpt2-small", "zoo-vit")
HARMLESS = re.compile(r"/(families|switchboard)/_stcore/(health|host-config)$")
"""A deep link makes Streamlit ask below the page's path first; the answer 404 is harmless."""


@pytest.fixture(scope="module")
def small_zoo(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AppServer]:
    """A server that offers two models only."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADLENS_MODELS", ",".join(MODELS))
        started = AppServer(tmp_path_factory.mktemp("families-cache"))
        started.start()
        yield started
        started.kill()


@pytest.fixture
def app(browser: Browser) -> Iterator[App]:
    """A page; afterwards nothing may have gone wrong or to another host."""
    opened = App(browser.new_context(viewport={"width": 1280, "height": 1000}).new_page())
    yield opened
    opened.page.context.close()
    assert [problem for problem in opened.problems if not HARMLESS.search(problem)] == []
    assert opened.hosts == {"127.0.0.1"}


def test_missing_models_are_measured_and_the_command_line_knows_them(small_zoo: AppServer, app: App) -> None:
    page = app.page
    page.goto(small_zoo.link("families", model=MODELS[0]))
    page.get_by_role("button", name=re.compile("^Run the 2 missing models")).click(timeout=SLOW)
    expect(page.get_by_role("progressbar").first).to_be_visible(timeout=SLOW)
    expect(page.get_by_role("button", name="Cancel")).to_be_visible()
    table = page.get_by_role("region", name=re.compile("^Heads that can go"))
    for name in MODELS:
        expect(table.get_by_role("rowheader", name=name)).to_be_visible(timeout=3 * SLOW)
    expect(page.get_by_text(re.compile("the median of 2 models is"))).to_be_visible(timeout=SLOW)
    app.expect_finished()

    command = [sys.executable, "-m", "headlens", "families", *MODELS, "--json"]
    found = subprocess.run(command, cwd=ROOT, env=small_zoo.environment, capture_output=True, check=True, timeout=240)
    assert b"to measure" not in found.stderr  # all from the store that the page has filled
    models = json.loads(found.stdout)["models"]
    for row in models:
        share = f"{100 * row['findings']['removable']['value']:.3g} %"
        cells = table.get_by_role("row").filter(has=page.get_by_role("rowheader", name=row["model"], exact=True))
        expect(cells).to_contain_text(share)

    page.get_by_role("radio", name="Layers with one head").click()
    expect(page.get_by_role("region", name=re.compile("^Layers with one head"))).to_be_visible(timeout=SLOW)
    page.set_viewport_size({"width": 390, "height": 844})
    width = page.evaluate("document.querySelector('[data-testid=stMain]').scrollWidth")
    assert width <= 390


def test_a_skill_goes_with_the_switches_and_comes_back(small_zoo: AppServer, app: App) -> None:
    app.open(small_zoo.link("switchboard", model=MODELS[0]))
    page = app.page
    box = page.locator(".st-key-skills")
    expect(box.get_by_text("Switch heads off to see which skill goes")).to_be_visible(timeout=SLOW)
    page.get_by_role("button", name=re.compile("^Layer 0, ")).click()
    expect(box.get_by_text(re.compile("can no longer"))).to_be_visible(timeout=2 * SLOW)
    expect(box.get_by_text("48 pairs a skill")).to_be_visible(timeout=2 * SLOW)
    app.expect_finished()
    box.get_by_text("The same in numbers").click()
    lost = box.get_by_role("row").filter(has_text=re.compile("lost$"))
    expect(lost.first).to_be_visible()
    page.get_by_role("button", name="Switch all on").click()
    expect(box.get_by_text(re.compile("can no longer"))).to_have_count(0, timeout=SLOW)


def test_the_map_by_role_keeps_names_and_switches(small_zoo: AppServer, app: App) -> None:
    app.open(small_zoo.link(model=MODELS[0]))
    app.expect_finished()
    before = app.heads.first.get_attribute("aria-label")
    app.page.get_by_role("radio", name="role", exact=True).click()
    marked = app.page.locator("button[data-mark]")
    expect(marked).to_have_count(16, timeout=SLOW)
    expect(app.page.get_by_text(re.compile(r"^\d+ of 16 heads have a role"))).to_be_visible()
    assert app.heads.first.get_attribute("aria-label") == before
    expect(app.heads.first).to_have_attribute("aria-description", re.compile("."))
    app.head("L0H1").click()
    app.expect_off("L0H1")
    app.page.get_by_role("radio", name="score", exact=True).click()
    expect(marked).to_have_count(0, timeout=SLOW)
