"""The head grid in a real Chromium: names and roles, every gesture, and that Python and the page never disagree."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest
from playwright.sync_api import Locator, expect

pytestmark = pytest.mark.browser

PHONE: dict[str, Any] = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
NAME = re.compile(r"(enc\.|dec\.|cross\.)?L\d+[HG]\d+, (-?\d+(\.\d+)?(e-\d+)?|pending|gone), (on|off)")


def centre(target: Locator) -> tuple[float, float]:
    box = target.bounding_box()
    assert box is not None
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def test_names_and_roles(open_grid) -> None:
    g = open_grid()
    expect(g.page.get_by_role("grid", name="Heads", exact=True)).to_have_count(1)
    cells = g.page.get_by_role("gridcell")
    expect(cells).to_have_count(270)
    expect(g.page.get_by_role("row")).to_have_count(31)
    expect(cells.get_by_role("button")).to_have_count(270)
    assert cells.evaluate_all("(all) => all.every((c) => c.querySelectorAll('button').length === 1)")
    names = cells.get_by_role("button").evaluate_all("(all) => all.map((b) => b.ariaLabel)")
    assert all(NAME.fullmatch(name) for name in names)
    assert names[7].startswith("L0H7, ")
    expect(g.page.get_by_role("button", name="L0H4, 0.2100, on", exact=True)).to_have_attribute("aria-pressed", "false")
    g.head("L0H4").click()
    expect(g.page.get_by_role("button", name="L0H4, 0.2100, off", exact=True)).to_have_attribute("aria-pressed", "true")
    tab_stops = g.grid().locator("button[tabindex='0']")
    expect(tab_stops).to_have_count(1)


def test_sites_gone_and_missing_heads(open_grid) -> None:
    g = open_grid("shape=ragged")
    for name in ("Heads enc", "Heads dec", "Heads cross"):
        expect(g.grid(name)).to_have_count(1)
    expect(g.grid("Heads dec").get_by_role("gridcell")).to_have_count(8 * 6 - 2 - 5)
    gone = g.head("enc.L1H3")
    expect(gone).to_have_accessible_name("enc.L1H3, gone, off")
    expect(gone).to_be_disabled()
    gone.click(force=True)
    g.page.mouse.down()
    g.page.mouse.move(*centre(g.head("enc.L1H7")))
    g.page.mouse.up()
    g.expect_off()
    g.grid("Heads enc").get_by_role("button", name="Layer 1, 0 of 4 off").click()
    g.head("dec.L3H2").click()
    g.press("ArrowUp", "ArrowRight", "ArrowRight", "ArrowRight", "ArrowDown", "Space")
    g.expect_off("enc.L1H0", "enc.L1H1", "enc.L1H6", "enc.L1H7", "dec.L3H2", "dec.L4H5")


def test_kv_groups(open_grid) -> None:
    g = open_grid("shape=kv")
    g.head("L2G1").click()
    g.page.get_by_role("button", name="Group 0, 0 of 30 off").click()
    g.expect_off("L2G1", *(f"L{r}G0" for r in range(30)))


def test_click_space_and_script_click_switch_once(open_grid) -> None:
    g = open_grid()
    g.head("L3H7").click()
    g.expect_off("L3H7")
    g.press("Space")
    g.expect_off()
    g.head("L3H7").dispatch_event("click")
    g.expect_off("L3H7")
    g.head("L3H7").dblclick()
    g.expect_off("L3H7")
    g.head("L3H7").click(button="right")
    g.page.wait_for_timeout(200)
    g.expect_off("L3H7")


PRESSES = """
async ([quick, slow]) => {
  const fire = (target, ...names) => names.forEach((name) => target.dispatchEvent(new PointerEvent(name, {
    bubbles: true, composed: true, pointerId: 1, isPrimary: true, pointerType: "mouse",
    detail: name === "click" ? 1 : 0,
  })));
  const wait = (time) => new Promise((done) => setTimeout(done, time));
  fire(quick, "pointerdown", "pointerup", "click");
  await wait(300);
  fire(slow, "pointerdown");
  await wait(300);
  fire(slow, "pointerup", "click");
}
"""
"""One quick press, then one that is still held when the first one's time for a late click is over."""


def test_a_slow_press_after_a_quick_one_switches_once(open_grid) -> None:
    g = open_grid()
    g.page.evaluate(PRESSES, [g.head("L3H1").element_handle(), g.head("L3H7").element_handle()])
    g.expect_off("L3H1", "L3H7")


def test_headers_switch_lines_and_count(open_grid) -> None:
    g = open_grid()
    g.head("L3H7").click()
    expect(g.page.get_by_role("button", name="Layer 3, 1 of 9 off", exact=True)).to_be_visible()
    expect(g.page.get_by_role("button", name="Head 7, 1 of 30 off", exact=True)).to_be_visible()
    g.row(3).click()
    g.expect_off(*(f"L3H{c}" for c in range(9)))
    g.row(3).click()
    g.expect_off()
    g.column(0).focus()
    g.press("Enter")
    g.expect_off(*(f"L{r}H0" for r in range(30)))
    g.press("Space")
    g.expect_off()


def test_drag_paints_without_holes_and_takes_the_first_state(open_grid) -> None:
    g = open_grid()
    g.page.mouse.move(*centre(g.head("L2H1")))
    g.page.mouse.down()
    g.page.mouse.move(*centre(g.head("L2H6")), steps=2)
    g.page.mouse.move(*centre(g.head("L5H6")), steps=1)
    g.page.mouse.up()
    first = {f"L2H{c}" for c in range(1, 7)} | {f"L{r}H6" for r in range(2, 6)}
    g.expect_off(*first)
    g.page.mouse.move(*centre(g.head("L2H3")))
    g.page.mouse.down()
    g.page.mouse.move(*centre(g.head("L2H8")), steps=3)
    g.page.mouse.up()
    g.expect_off(*(first - {f"L2H{c}" for c in range(3, 9)}))


def test_shift_click_fills_the_rectangle(open_grid) -> None:
    g = open_grid()
    g.head("L4H2").click()
    g.head("L4H5").click(modifiers=["Shift"])
    g.expect_off(*(f"L4H{c}" for c in range(2, 6)))
    g.head("L4H2").click()
    g.head("L6H4").click(modifiers=["Shift"])
    g.expect_off("L4H5")
    g.head("L5H3").click()
    g.head("L6H2").click(modifiers=["Shift"])
    g.expect_off("L4H5", "L5H2", "L5H3", "L6H2", "L6H3")


def test_keys_move(open_grid) -> None:
    g = open_grid()
    g.head("L0H0").focus()
    for keys, label in [
        (["ArrowRight", "ArrowDown"], "L1H1,"),
        (["End"], "L1H8,"),
        (["Home"], "L1H0,"),
        (["PageDown"], "L6H0,"),
        (["PageUp", "PageUp"], "L0H0,"),
        (["Control+End"], "L29H8,"),
        (["ArrowDown", "ArrowRight"], "L29H8,"),
        (["Control+Home"], "L0H0,"),
        (["ArrowLeft"], "Layer 0,"),
        (["ArrowDown"], "Layer 1,"),
        (["ArrowRight", "ArrowUp", "ArrowUp"], "Head 0,"),
        (["End"], "Head 8,"),
        (["ArrowDown", "ArrowLeft"], "L0H7,"),
    ]:
        g.press(*keys)
        assert g.focused().startswith(label), (keys, g.focused())
    g.press("Tab", "Shift+Tab")
    assert g.focused().startswith("L0H7,"), "the grid is one tab stop that remembers its place"
    g.expect_off()


def test_shift_arrows_paint_the_state_of_the_first(open_grid) -> None:
    g = open_grid()
    g.head("L3H3").focus()
    g.press("Space", "Shift+ArrowRight", "Shift+ArrowRight", "Shift+ArrowDown")
    g.expect_off("L3H3", "L3H4", "L3H5", "L4H5")
    g.press("ArrowDown", "Shift+ArrowUp", "Shift+ArrowUp")
    g.expect_off("L3H3", "L3H4")


def test_enter_pins_and_unpins(open_grid) -> None:
    g = open_grid()
    g.head("L3H3").focus()
    g.press("Enter")
    g.expect_text("active=L3H3 pinned=L3H3")
    g.press("ArrowRight")
    g.expect_text("active=L3H4 pinned=L3H3")
    g.press("Enter")
    g.expect_text("active=L3H4 pinned=L3H4")
    g.press("Enter")
    g.expect_text("active=L3H4 pinned=None")
    g.press("Enter", "Escape")
    g.expect_text("active=L3H4 pinned=None")
    g.press("Enter")
    g.expect_text("pinned=L3H4")
    g.click_button("Unpin")
    g.expect_text("pinned=None")
    expect(g.page.locator(".hl-pinned")).to_have_count(0)
    g.expect_off()


def test_hover_reports_the_head_and_shows_it_at_once(open_grid) -> None:
    g = open_grid()
    g.head("L0H1").hover()
    tip = g.page.locator(".hl-tip")
    expect(tip).to_contain_text("L0H1")
    expect(tip).to_contain_text("± ")
    expect(tip).to_contain_text("copies a repeated sequence")
    expect(tip).to_contain_text(re.compile(r"rank \d+ of 270, above \d+ % of them"))
    g.expect_text("active=L0H1")
    events = g.page.get_by_text("events=1", exact=False)
    expect(events).to_be_visible()
    g.page.mouse.move(5, 5)
    expect(tip).to_be_hidden()
    g.page.wait_for_timeout(150)
    g.expect_text("active=L0H1")


def test_switches_are_announced(open_grid) -> None:
    g = open_grid()
    live = g.page.locator("[aria-live=polite]").filter(has_text="off")
    g.head("L3H6").click()
    g.head("L3H7").click()
    expect(live).to_have_text("L3H7 off, 2 heads off")
    g.row(3).click()
    expect(live).to_have_text("7 heads off, 9 heads off")
    g.row(3).click()
    expect(g.page.locator("[aria-live=polite]").filter(has_text="heads on")).to_have_text("9 heads on, 0 heads off")


@pytest.mark.parametrize("shape", ["30x9", "32x32"])
def test_twenty_quick_clicks(open_grid, shape: str) -> None:
    g = open_grid(f"shape={shape}")
    labels = [f"L{r}H{c}" for r in range(1, 6) for c in (0, 2, 5, 8)]
    points = [centre(g.head(label)) for label in labels]
    for point in points:
        g.page.mouse.click(*point)
    g.expect_off(*labels)


def test_python_writes_win_and_the_same_head_can_be_switched_again(open_grid) -> None:
    g = open_grid()
    g.head("L3H7").click()
    g.expect_off("L3H7")
    g.click_button("Reset")
    g.expect_off()
    g.head("L3H7").click()
    g.expect_off("L3H7")
    g.click_button("Preset")
    g.expect_off("L0H0", "L1H1", "L2H2")
    g.click_button("Nothing")
    g.head("L0H0").click()
    g.expect_off("L1H1", "L2H2")
    g.click_button("Reset")
    g.click_button("Reset")
    g.expect_off()


def test_a_session_that_starts_anew_is_followed(open_grid) -> None:
    g = open_grid()
    for label in ("L3H7", "L4H1", "L5H1"):
        g.head(label).click()
    g.expect_off("L3H7", "L4H1", "L5H1")
    g.click_button("Forget")
    g.expect_off()
    g.head("L4H1").click()
    g.expect_off("L4H1")


def test_streaming_scores_loses_neither_clicks_nor_focus_nor_elements(open_grid) -> None:
    g = open_grid()
    g.head("L6H3").evaluate("(b) => (b.sameElement = true)")
    g.click_button("Stream")
    expect(g.page.get_by_role("button", name=re.compile("pending, on")).first).to_be_visible()
    clicked = [f"L{r}H{c}" for r in range(3, 13) for c in (1, 4)]
    for label in clicked:
        g.head(label).click()
        assert g.focused().startswith(f"{label},")
    g.expect_text("hidden=0")
    expect(g.page.get_by_role("button", name=re.compile("pending"))).to_have_count(0)
    g.expect_off(*clicked)
    assert g.focused().startswith(f"{clicked[-1]},")
    assert g.head("L6H3").evaluate("(b) => b.sameElement")


def test_two_people_do_not_disturb_each_other(open_grid) -> None:
    one, two = open_grid(), open_grid("shape=32x32")
    one.head("L3H7").click()
    two.head("L30H20").click()
    two.head("L31H20").click()
    one.head("L4H7").click()
    one.expect_off("L3H7", "L4H7")
    two.expect_off("L30H20", "L31H20")


def test_theme_change_repaints_without_rebuilding(open_grid) -> None:
    g = open_grid(color_scheme="dark")
    colour = "(b) => getComputedStyle(b).getPropertyValue('--hl-colour')"
    best, worst = g.head("L0H4"), g.head("L29H0")
    dark = best.evaluate(colour)
    brightness = [sum(map(int, re.findall(r"\d+", c))) for c in (dark, worst.evaluate(colour))]
    assert brightness[0] > brightness[1], "the strong end is the bright one in the dark"
    g.head("L0H4").click()
    g.page.emulate_media(color_scheme="light")
    expect(best).not_to_have_css("--hl-colour", dark)
    light = best.evaluate(colour)
    assert sum(map(int, re.findall(r"\d+", light))) < 300
    g.expect_off("L0H4")


def test_phone_taps_switch_once_and_cells_fit_fingers(open_grid) -> None:
    g = open_grid("shape=32x32", **PHONE)
    box = g.head("L3H3").bounding_box()
    assert box is not None
    assert min(box["width"], box["height"]) >= 24
    assert g.page.evaluate("document.documentElement.scrollWidth") <= 390
    g.head("L3H3").tap()
    g.expect_off("L3H3")
    g.expect_text("active=L3H3")
    g.head("L3H30").tap()
    g.expect_off("L3H3", "L3H30")
    row = g.row(3).bounding_box()
    assert row is not None
    assert 0 <= row["x"] < 40, "row headers stay while the grid is scrolled sideways"
    g.row(4).tap()
    g.expect_off("L3H3", "L3H30", *(f"L4H{c}" for c in range(32)))


class Finger:
    """Touches, sent as the browser's own input so that it may scroll."""

    def __init__(self, page) -> None:
        self.cdp = page.context.new_cdp_session(page)

    def drag(self, start: tuple[float, float], end: tuple[float, float], hold: float = 0) -> None:
        self._send("touchStart", start)
        time.sleep(hold)
        for i in range(1, 13):
            self._send("touchMove", (start[0] + (end[0] - start[0]) * i / 12, start[1] + (end[1] - start[1]) * i / 12))
            time.sleep(0.016)
        self._send("touchEnd")

    def _send(self, kind: str, point: tuple[float, float] | None = None) -> None:
        points = [] if point is None else [{"x": point[0], "y": point[1]}]
        self.cdp.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})


def test_phone_swipes_scroll_and_a_held_finger_paints(open_grid) -> None:
    g = open_grid("shape=32x32", **PHONE)
    finger = Finger(g.page)
    scroller = g.page.locator(".hl-scroll")
    finger.drag(centre(g.head("L6H9")), centre(g.head("L6H2")))
    g.page.wait_for_timeout(300)
    assert scroller.evaluate("(s) => s.scrollLeft") > 50
    tops = centre(g.head("L0H9"))[1]
    finger.drag(centre(g.head("L14H9")), centre(g.head("L6H9")))
    g.page.wait_for_timeout(300)
    assert centre(g.head("L0H9"))[1] < tops - 50
    g.expect_off()
    finger.drag(centre(g.head("L14H9")), centre(g.head("L14H12")), hold=0.5)
    g.expect_off("L14H9", "L14H10", "L14H11", "L14H12")


def test_phone_sideways_drag_paints_where_nothing_scrolls_sideways(open_grid) -> None:
    g = open_grid("shape=30x9", **PHONE)
    finger = Finger(g.page)
    finger.drag(centre(g.head("L5H1")), centre(g.head("L5H6")))
    g.expect_off(*(f"L5H{c}" for c in range(1, 7)))
    top = centre(g.head("L0H0"))[1]
    finger.drag(centre(g.head("L12H3")), centre(g.head("L4H3")))
    g.page.wait_for_timeout(300)
    assert centre(g.head("L0H0"))[1] < top - 50
    g.expect_off(*(f"L5H{c}" for c in range(1, 7)))
