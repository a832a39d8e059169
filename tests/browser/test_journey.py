"""The app's first page in a real browser: what a user does with mouse, keyboard and links."""

from __future__ import annotations

import json
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.conftest import ROOT, SLOW, App, AppServer, OpenApp

pytestmark = pytest.mark.browser


def evaluate_live(server: AppServer, model: str, off: str) -> dict[str, Any]:
    """What the command line says about the same switches."""
    command = [sys.executable, "-m", "headlens", "evaluate", model, "--live", "--off", off, "--json"]
    found = subprocess.run(command, cwd=ROOT, env=server.environment, capture_output=True, check=True, timeout=240)
    return json.loads(found.stdout)


def loss_without(model: str, off: str) -> float:
    """The same by the library, in this process."""
    from headlens.data.select import live_set
    from headlens.evaluate import evaluate
    from headlens.lens import open_model
    from headlens.metrics import METRICS

    lens = open_model(model)
    return evaluate(lens, live_set(lens), lens.topology.parse(off), metric=METRICS["loss"]).main.value


def note_speed(name: str, value: float, record: Any) -> None:
    """A measured felt speed, for the log and the report of the test run."""
    record(name, round(value, 3))


@pytest.fixture(scope="module")
def expected(server: AppServer, small_model: str) -> dict[str, Any]:
    """``headlens evaluate --live`` with three heads off."""
    return evaluate_live(server, small_model, "L0H1,L1H2,L2H3")


def test_the_journey(
    server: AppServer, open_app: OpenApp, small_model: str, expected: dict[str, Any], record_property: Any
) -> None:
    begin = time.monotonic()
    app = open_app(server.link(model=small_model))
    note_speed("first open to coloured map", time.monotonic() - begin, record_property)
    app.expect_finished()
    expect(app.heads).to_have_count(12)
    app.expect_metric(expected["baseline"])

    app.head("L1H2").hover()
    card = app.page.locator(".st-key-head_card")
    expect(card.get_by_role("combobox", name="Head")).to_have_value("L1H2", timeout=SLOW)
    expect(card.get_by_role("rowheader", name="Leave one out (exact)")).to_be_visible()
    expect(card.get_by_text(re.compile("^Role:"))).to_be_visible(timeout=SLOW)
    expect(card.get_by_role("img", name=re.compile("^Attention of L1H2"))).to_be_visible(timeout=SLOW)

    app.head("L0H1").click()
    app.head("L1H2").focus()
    app.page.keyboard.press("Space")
    app.page.keyboard.press("ArrowDown")
    app.page.keyboard.press("ArrowRight")
    app.page.keyboard.press("Space")
    app.expect_off("L0H1", "L1H2", "L2H3")
    app.expect_metric(expected["value"])
    expect(app.page).to_have_url(re.compile("off=L0H1,L1H2,L2H3|off=L0H1%2CL1H2%2CL2H3"))

    app.page.reload()
    app.expect_coloured()
    app.expect_off("L0H1", "L1H2", "L2H3")
    app.expect_metric(expected["value"])

    app.page.get_by_role("button", name="Switch all on").click()
    app.expect_off()
    app.expect_metric(expected["baseline"])


def test_a_toggle_is_felt_at_once(server: AppServer, open_app: OpenApp, small_model: str, record_property: Any) -> None:
    app = open_app(server.link(model=small_model))
    app.expect_finished()
    app.page.evaluate(
        """() => {
            window.changes = [];
            const loss = () => document.querySelector('[data-testid=stMetricValue]')?.textContent;
            let last = loss();
            new MutationObserver(() => {
                const now = loss();
                if (now && now !== last) { last = now; window.changes.push(performance.now()); }
            }).observe(document.body, { subtree: true, childList: true, characterData: true });
            addEventListener('pointerdown', () => (window.pressed = performance.now()), true);
        }"""
    )
    times = []
    for number, label in enumerate(["L0H0", "L1H1", "L2H2", "L0H3", "L1H0"]):
        app.head(label).click()
        app.page.wait_for_function("(n) => window.changes.length > n", arg=number, timeout=SLOW)
        times.append(app.page.evaluate("(n) => window.changes[n] - window.pressed", number) / 1000)
        app.expect_still()
    note_speed("toggle to number, median", statistics.median(times), record_property)
    assert statistics.median(times) < 3


def test_two_people_at_the_same_time(
    server: AppServer, open_app: OpenApp, small_model: str, expected: dict[str, Any]
) -> None:
    first, second = (open_app(server.link(model=small_model)) for _ in range(2))
    for app in (first, second):
        app.expect_finished()
    for mine, yours in (("L0H1", "L2H0"), ("L1H2", "L2H1"), ("L2H3", "L2H2")):
        first.head(mine).click(no_wait_after=True)
        second.head(yours).click(no_wait_after=True)
    first.expect_metric(expected["value"])
    first.expect_off("L0H1", "L1H2", "L2H3")
    second.expect_off("L2H0", "L2H1", "L2H2")
    second.expect_metric(loss_without(small_model, "L2H0-H2"))


def test_long_work_shows_progress_and_can_be_cancelled(server: AppServer, open_app: OpenApp, long_model: str) -> None:
    app = open_app(server.link(model=long_model))
    expect(app.page.get_by_role("progressbar").first).to_be_visible(timeout=SLOW)
    app.page.get_by_role("button", name="Cancel").click()
    expect(app.page.get_by_text(re.compile("^Stopped"))).to_be_visible(timeout=SLOW)
    expect(app.page.get_by_role("progressbar")).to_have_count(0, timeout=SLOW)
    app.head("L3H4").click()
    app.expect_off("L3H4")
    app.page.get_by_role("button", name="Go on").click()
    expect(app.page.get_by_text(re.compile("^Stopped"))).to_have_count(0, timeout=SLOW)
    expect(app.page.get_by_text(re.compile(r"^Exact in \d+ of 40 layers|heads change the loss"))).to_be_visible(
        timeout=SLOW
    )
    app.expect_off("L3H4")


def test_everything_by_keyboard(server: AppServer, open_app: OpenApp, small_model: str) -> None:
    app = open_app(server.link(model=small_model))
    app.expect_finished()
    for _ in range(60):
        app.page.keyboard.press("Tab")
        if app.focused().startswith("L0H0,"):
            break
    assert app.focused().startswith("L0H0,")
    app.page.keyboard.press("ArrowDown")
    card = app.page.locator(".st-key-head_card")
    expect(card.get_by_role("combobox", name="Head")).to_have_value("L1H0", timeout=SLOW)
    app.page.keyboard.press("Enter")
    expect(card.get_by_role("button", name="Unpin")).to_be_visible(timeout=SLOW)
    app.page.keyboard.press("ArrowRight")
    app.page.keyboard.press("Space")
    app.expect_off("L1H1")
    app.expect_still()
    expect(card.get_by_role("combobox", name="Head")).to_have_value("L1H0")
    for _ in range(60):
        app.page.keyboard.press("Tab")
        if app.focused().strip().endswith("Switch off"):
            break
    app.page.keyboard.press("Enter")
    app.expect_off("L1H0", "L1H1")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [(1280, 800), (390, 844)], ids=["laptop", "phone"])
def test_it_fits_in_light_and_dark(
    server: AppServer, open_app: OpenApp, small_model: str, scheme: Any, size: tuple[int, int]
) -> None:
    width, height = size
    app = open_app(server.link(model=small_model), viewport={"width": width, "height": height}, color_scheme=scheme)
    app.expect_finished()
    back = app.page.get_by_test_id("stApp").evaluate("(e) => getComputedStyle(e).backgroundColor")
    assert (sum(int(part) for part in re.findall(r"\d+", back)[:3]) < 200) == (scheme == "dark"), back
    assert app.page.evaluate("document.documentElement.scrollWidth") <= width
    main = app.page.get_by_test_id("stMainBlockContainer").bounding_box()
    box = app.head("L0H3").bounding_box()
    assert main is not None
    assert box is not None
    assert box["x"] + box["width"] <= main["x"] + main["width"]
    assert min(box["width"], box["height"]) >= 12
    if width == 390:  # the menu covers the page only when it is asked for
        app.head("L2H1").click()
        app.expect_off("L2H1")


def test_a_killed_server_loses_nothing(
    browser: Browser, small_model: str, expected: dict[str, Any], tmp_path: Path, record_property: Any
) -> None:
    server = AppServer(tmp_path / "cache")
    server.start()
    try:
        app = App(browser.new_context(viewport={"width": 1280, "height": 900}).new_page())
        app.open(server.link(model=small_model))
        note_speed("server start to coloured map", time.monotonic() - server.started, record_property)
        for label in ("L0H1", "L1H2", "L2H3"):
            app.head(label).click()
        app.expect_metric(expected["value"])
        server.kill()
        server.start()
        # The page reconnects by itself; what the new server knows comes from the address.
        expect(app.page.get_by_test_id("stApp")).to_have_attribute(
            "data-test-connection-state", "CONNECTED", timeout=SLOW
        )
        app.expect_coloured()
        app.expect_still()
        app.head("L0H0").click()
        expect(app.page.get_by_test_id("stSidebar").get_by_text("4 of 12 heads off", exact=True)).to_be_visible(
            timeout=SLOW
        )
        app.head("L0H0").click()
        expect(app.page.get_by_test_id("stSidebar").get_by_text("3 of 12 heads off", exact=True)).to_be_visible(
            timeout=SLOW
        )
        app.expect_metric(expected["value"])
        app.page.context.close()
    finally:
        server.kill()
