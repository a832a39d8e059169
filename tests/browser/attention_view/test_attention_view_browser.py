"""The attention view in a real Chromium: right values in right places, every gesture, speed, and no markup."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from runpy import run_path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

DATA = run_path(str(Path(__file__).with_name("stub_data.py")))
PHONE: dict[str, Any] = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
logger = logging.getLogger(__name__)


def weight_text(weight: float) -> str:
    return "<0.001" if 0 < weight < 0.0005 else f"{weight:.3f}"


def test_figure_has_name_and_labels_at_their_rows_and_columns(open_figure) -> None:
    f = open_figure("size=16")
    expect(f.page.get_by_role("figure", name="Attention of L2H0 over 16 tokens.", exact=True)).to_have_count(1)
    assert f.cell() >= 9
    box, size = f.box(), f.cell()
    for index, word in enumerate(DATA["words"](16)):
        row, column = f.label("rows", index), f.label("columns", index)
        assert row.locator("bdi").text_content() == column.locator("bdi").text_content() == word
        place = f.box(row)
        assert place["y"] + place["height"] / 2 == pytest.approx(box["y"] + (index + 0.5) * size, abs=2)
        # A slanted label starts at its column: the lower left corner of its box.
        place = f.box(column)
        assert place["x"] == pytest.approx(box["x"] + (index + 0.5) * size, abs=9)
        assert place["y"] + place["height"] <= box["y"] + 4


@pytest.mark.parametrize("cell", [(0, 0), (5, 2), (15, 15), (12, 0), (9, 8)])
def test_tooltip_tells_the_array_s_weight(open_figure, cell) -> None:
    f = open_figure("size=16")
    f.point(*cell)
    expected = DATA["pattern"](2, 0, 16, 16)[cell]
    expect(f.tip.locator(".av-number")).to_have_text(weight_text(expected))
    words = DATA["words"](16)
    expect(f.tip.locator("div").nth(0)).to_contain_text(f"{words[cell[0]]}” #{cell[0]} · id {100 + cell[0]}")
    expect(f.tip.locator("div").nth(1)).to_contain_text(f"{words[cell[1]]}” #{cell[1]} · id {100 + cell[1]}")


def test_later_tokens_are_empty_and_said_so(open_figure) -> None:
    f = open_figure("size=16")
    f.point(3, 9)
    expect(f.tip).to_contain_text("cannot be seen")
    assert f.pixel(6, 12)[3] == 0
    assert f.pixel(6, 2)[3] == 255


@pytest.mark.parametrize("dark", [False, True])
def test_larger_weights_have_stronger_colours(open_figure, dark: bool) -> None:
    f = open_figure("size=12&scale=linear", color_scheme="dark" if dark else "light")
    pattern = DATA["pattern"](2, 0, 12, 12)
    cells = sorted(((pattern[q, k], f.pixel(q, k)) for q in range(12) for k in range(q + 1)), key=lambda c: c[0])
    brightness = [sum(colour[:3]) for _, colour in cells]
    ordered = brightness if dark else brightness[::-1]
    assert ordered == sorted(ordered)
    assert ordered[-1] - ordered[0] > 300


def test_row_scale_gives_every_row_a_full_colour(open_figure) -> None:
    f = open_figure("size=12&scale=row")
    pattern = DATA["pattern"](2, 0, 12, 12)
    strongest = {tuple(f.pixel(q, int(np.argmax(pattern[q])))) for q in range(12)}
    assert len(strongest) == 1
    f.expect_text("share of the largest in its row")


def test_cross_attention_is_neither_transposed_nor_shifted(open_figure) -> None:
    f = open_figure("case=cross")
    pattern = DATA["pattern"](0, 0, 5, 9, causal=False)
    for q, k in [(0, 8), (4, 3), (4, 0), (2, 7)]:
        f.point(q, k)
        expect(f.tip.locator(".av-number")).to_have_text(weight_text(pattern[q, k]))
        expect(f.tip.locator("div").nth(0)).to_contain_text(f"#{20 + q}")
        expect(f.tip.locator("div").nth(1)).to_contain_text(f"key{k}” #{k}")


def test_keyboard_moves_a_cursor_that_is_announced(open_figure) -> None:
    f = open_figure("size=16")
    pattern, words = DATA["pattern"](2, 0, 16, 16), DATA["words"](16)
    f.map.focus()
    f.press("ArrowDown", "ArrowDown", "ArrowDown", "ArrowRight")
    said = f"query '{words[3]}' (3) attends to '{words[1]}' (1): {weight_text(pattern[3, 1])}"
    expect(f.live).to_have_text(said)
    f.press("End")
    expect(f.live).to_have_text(f"query '{words[3]}' (3) cannot see '{words[15]}' (15), which comes later")
    f.press("Control+End", "Home", "ArrowUp")
    expect(f.live).to_have_text(re.compile(rf"^query '{words[14]}' \(14\) attends to '{words[0]}' \(0\): 0\."))
    expect(f.tip).to_be_visible()
    f.press("Escape")
    expect(f.tip).to_be_hidden()


def test_zoom_shows_labels_and_the_cursor_scrolls_into_view(open_figure) -> None:
    f = open_figure("size=128")
    assert f.cell() == 4
    larger = f.figure.get_by_role("button", name="Larger cells")
    for _ in range(4):
        larger.click()
    assert f.cell() == 16
    expect(f.label("rows", 127)).to_have_count(0)
    f.map.focus()
    f.press("Control+End")
    expect(f.label("rows", 127)).to_be_visible()
    pattern = DATA["pattern"](2, 0, 128, 128)
    expect(f.tip.locator(".av-number")).to_have_text(weight_text(pattern[127, 127]))


def test_hovering_a_token_shows_only_its_lines(open_figure) -> None:
    f = open_figure("size=16&view=lines")
    pattern = DATA["pattern"](2, 0, 16, 16)
    expect(f.canvas).to_have_attribute("data-lines", str(int((pattern > 8 / 255).sum())))
    f.token("query", 9).hover()
    expect(f.canvas).to_have_attribute("data-lines", "10")
    for k in (0, 7, 8):
        shown = f"{pattern[9, k]:.2f}" if pattern[9, k] >= 0.01 else ""
        expect(f.token("key", k).locator(".av-value")).to_have_text(shown)
    f.token("key", 14).hover()
    expect(f.canvas).to_have_attribute("data-lines", "2")
    f.page.mouse.move(5, 5)
    expect(f.canvas).to_have_attribute("data-lines", str(int((pattern > 8 / 255).sum())))


def test_lock_is_released_by_a_second_click_escape_or_the_button(open_figure) -> None:
    f = open_figure("size=16&view=lines")
    token, other = f.token("query", 9), f.token("query", 4)
    token.click()
    expect(token).to_have_attribute("aria-pressed", "true")
    other.hover()
    expect(f.canvas).to_have_attribute("data-lines", "10")
    token.click()
    expect(token).to_have_attribute("aria-pressed", "false")
    other.hover()
    expect(f.canvas).to_have_attribute("data-lines", "5")
    other.click()
    f.press("Escape")
    expect(other).to_have_attribute("aria-pressed", "false")
    token.click()
    f.figure.get_by_role("button", name="Release").click()
    expect(token).to_have_attribute("aria-pressed", "false")


def test_lines_by_keyboard(open_figure) -> None:
    f = open_figure("size=16&view=lines")
    f.token("query", 0).focus()
    f.press("ArrowDown", "ArrowDown")
    expect(f.live).to_have_text(re.compile(r"^query 'sat' \(2\) attends most to '"))
    expect(f.canvas).to_have_attribute("data-lines", "3")
    f.press("Enter")
    expect(f.token("query", 2)).to_have_attribute("aria-pressed", "true")
    f.press("ArrowRight")
    expect(f.token("key", 2)).to_be_focused()
    f.press("Escape")
    expect(f.token("query", 2)).to_have_attribute("aria-pressed", "false")


def test_thumbnails_are_named_buttons_that_choose_the_head(open_figure) -> None:
    f = open_figure("size=16")
    expect(f.figure.get_by_role("button", name=re.compile(r"^L2H\d, "))).to_have_count(6)
    expect(f.figure.get_by_role("button", name="L2H2, previous token", exact=True)).to_have_count(1)
    f.thumbnail("L2H2").click()
    f.shows("L2H2")
    f.expect_text("head=L2H2 hide=False")
    f.point(5, 4)
    expect(f.tip.locator(".av-number")).to_have_text(weight_text(DATA["pattern"](2, 2, 16, 16)[5, 4]))


def test_arrows_step_heads_and_layers(open_figure) -> None:
    f = open_figure("size=16")
    f.thumbnail("L2H0").focus()
    f.press("ArrowRight", "ArrowRight")
    f.shows("L2H2")
    expect(f.thumbnail("L2H2")).to_be_focused()
    f.press("ArrowDown")
    f.shows("L3H2")
    f.expect_text("head=L3H2 hide=False")
    expect(f.thumbnail("L3H2")).to_be_focused()
    f.press("ArrowDown")  # there is no layer 4
    f.press("ArrowUp", "ArrowUp", "ArrowUp", "ArrowLeft")
    f.expect_text("head=L0H1 hide=False")
    f.shows("L0H1")
    f.map.hover()
    f.point(7, 0)
    expect(f.tip.locator(".av-number")).to_have_text(weight_text(DATA["pattern"](0, 1, 16, 16)[7, 0]))


def test_a_burst_of_steps_ends_where_the_user_went_and_the_page_can_still_choose(open_figure) -> None:
    f = open_figure("size=16")
    f.thumbnail("L2H0").focus()
    f.press(*["ArrowRight"] * 5, *["ArrowLeft"] * 2)
    f.shows("L2H3")
    f.expect_text("head=L2H3 hide=False")
    f.page.get_by_role("button", name="Go to L0H1").click()
    f.shows("L0H1")
    f.expect_text("head=L0H1 hide=False")


def test_hiding_the_first_token_is_instant_told_to_python_and_leaves_weights_alone(open_figure) -> None:
    f = open_figure("size=16")
    f.thumbnail("L2H3").click()
    f.shows("L2H3")
    f.expect_text("head=L2H3 hide=False")
    pattern = DATA["pattern"](2, 3, 16, 16)
    before = f.pixel(10, 4)
    f.figure.get_by_label("Hide first token").check()
    assert f.pixel(10, 4) != before
    assert f.figure.locator(".av-ticks span").last.text_content() == f"{pattern[:, 1:].max():.2f}"
    share = pattern[1:, 0].mean()
    expect(f.figure.locator(".av-caption")).to_contain_text(f"it takes {100 * share:.0f} % of the attention on average")
    f.point(10, 4)
    expect(f.tip.locator(".av-number")).to_have_text(weight_text(pattern[10, 4]))
    f.point(10, 0)
    expect(f.tip.locator(".av-number")).to_have_text(weight_text(pattern[10, 0]))
    expect(f.tip).to_contain_text("hidden from the colours")
    f.expect_text("head=L2H3 hide=True")


def test_hiding_the_first_token_takes_its_lines_away(open_figure) -> None:
    f = open_figure("size=16&view=lines")
    f.figure.get_by_label("Hide first token").check()
    pattern = DATA["pattern"](2, 0, 16, 16)
    expect(f.canvas).to_have_attribute("data-lines", str(int((pattern[:, 1:] > 8 / 255).sum())))
    f.token("query", 9).hover()
    expect(f.canvas).to_have_attribute("data-lines", "9")
    expect(f.token("key", 0).locator(".av-value")).to_have_text("")
    expect(f.token("key", 0)).to_have_class(re.compile("av-hidden"))


def test_a_changed_text_redraws_and_a_rerun_keeps_the_size(open_figure) -> None:
    f = open_figure("size=16")
    wide = f.box(f.figure)["width"]
    for size in (20, 24, 28):
        f.page.get_by_role("button", name="Longer text").click()
        expect(f.page.get_by_role("figure", name=f"over {size} tokens")).to_be_visible()
    f.point(27, 27)
    expect(f.tip.locator(".av-number")).to_have_text(weight_text(DATA["pattern"](2, 0, 28, 28)[27, 27]))
    assert f.box(f.figure)["width"] == wide


def test_narrowing_and_widening_the_window_restores_the_map(open_figure) -> None:
    f = open_figure("size=40")
    size = f.cell()
    f.page.set_viewport_size({"width": 420, "height": 900})
    expect(f.figure.locator(".av-rows .av-label")).not_to_have_count(40)
    f.page.set_viewport_size({"width": 1000, "height": 1000})
    expect(f.figure.locator(".av-rows .av-label")).to_have_count(40)
    assert f.cell() == size


def test_two_views_do_not_disturb_each_other(open_figure) -> None:
    f = open_figure("case=two")
    figures = f.page.get_by_role("figure")
    expect(figures).to_have_count(2)
    figures.nth(1).get_by_role("button", name="cross.L0H1,").click()
    expect(figures.nth(1)).to_have_attribute("data-painted", "cross.L0H1")
    expect(figures.nth(0)).to_have_attribute("data-painted", "cross.L0H0")
    expect(figures.nth(0).locator(".av-rows .av-label")).to_have_count(6)
    f.expect_text("runs=2")
    expect(figures.nth(1)).to_have_attribute("data-painted", "cross.L0H1")


@pytest.mark.parametrize("view", ["map", "lines"])
def test_tokens_are_text_and_never_markup(open_figure, view: str) -> None:
    f = open_figure(f"case=nasty&view={view}")
    shown = f.figure.locator("bdi").all_text_contents()
    for token in DATA["NASTY"]:
        assert token in shown
    assert f.figure.locator("bdi[dir=auto]").count() == len(shown)
    if view == "map":
        f.point(0, 1)
        expect(f.tip).to_contain_text(DATA["NASTY"][0])
        expect(f.tip).to_contain_text(DATA["NASTY"][1])
    else:
        f.figure.get_by_role("button", name=re.compile("^query '<script>")).click()
    assert f.figure.locator("script, img").count() == 0
    assert f.page.title() == "Attention view"


def test_right_to_left_tokens_keep_their_direction(open_figure) -> None:
    f = open_figure("case=nasty&view=lines")
    arabic, latin = f.figure.locator("bdi", has_text="مرحبا").first, f.figure.locator("bdi", has_text="&amp;").first
    assert arabic.evaluate("(e) => getComputedStyle(e).direction") == "rtl"
    assert latin.evaluate("(e) => getComputedStyle(e).direction") == "ltr"


def test_picture_overlay_follows_the_query(open_figure) -> None:
    f = open_figure("case=picture&scale=row")
    weights = DATA["patches"](8, 8, 0)
    words = f.figure.locator(".av-words")
    best = int(np.argmax(weights[0, 1:]))
    expect(words).to_contain_text(
        f"Query [CLS] attends most to row {best // 8 + 1}, column {best % 8 + 1}: {weights[0, 1 + best]:.3f}"
    )
    box = f.box()
    patch = box["width"] / 8
    f.page.mouse.move(box["x"] + 5.5 * patch, box["y"] + 2.5 * patch)
    query = 1 + 2 * 8 + 5
    expect(words).to_contain_text(f"Query row 3, column 6 attends most to row 3, column 6: {weights[query, query]:.3f}")
    expect(f.figure.get_by_role("button", name=f"query [CLS], receives {weights[query, 0]:.3f}")).to_be_visible()

    def amber(row: int, column: int) -> int:
        r, _, b, _ = f.canvas.evaluate(
            "(c, [x, y]) => [...c.getContext('2d').getImageData(x, y, 1, 1).data]",
            [round((column + 0.5) * patch), round((row + 0.5) * patch)],
        )
        return r - b

    assert amber(2, 5) > amber(2, 4) > amber(7, 0)
    f.page.mouse.move(5, 5)
    expect(words).to_contain_text("Query [CLS]")


def test_picture_by_keyboard(open_figure) -> None:
    f = open_figure("case=picture")
    f.map.focus()
    f.press("ArrowDown", "ArrowRight", "ArrowRight")
    expect(f.canvas).to_have_attribute("data-query", str(1 + 8 + 2))
    expect(f.live).to_have_text(re.compile("^Query row 2, column 3 attends most to row 2, column 3"))
    f.figure.get_by_role("button", name="query [CLS]").click()
    expect(f.canvas).to_have_attribute("data-query", "0")


def test_a_window_shows_the_page_s_note(open_figure) -> None:
    f = open_figure("size=300&heads=2")
    expect(f.figure.get_by_role("note")).to_have_text("Showing the first 300 of 900 tokens.")


def test_heads_beyond_the_budget_arrive_whole_when_chosen(open_figure) -> None:
    f = open_figure("size=512&heads=4")
    f.thumbnail("L2H2").click()
    f.shows("L2H2")
    expect(f.figure).to_have_attribute("aria-busy", "false", timeout=10_000)
    f.expect_text("head=L2H2 hide=False")
    f.point(100, 99)
    expect(f.tip.locator(".av-number")).to_have_text(weight_text(DATA["pattern"](2, 2, 512, 512)[100, 99]))


@pytest.mark.parametrize("view", ["map", "lines", "picture"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_phone_width_has_no_sideways_overflow(open_figure, view: str, scheme: str) -> None:
    f = open_figure(f"case={'picture' if view == 'picture' else 'text'}&view={view}", color_scheme=scheme, **PHONE)
    box = f.box(f.figure)
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 390
    inside = f.figure.evaluate(
        "(e) => [...e.querySelectorAll('canvas, button, input, p')]"
        ".every((n) => n.getBoundingClientRect().right <= 391)"
    )
    assert inside


def test_touch_shows_the_cell(open_figure) -> None:
    f = open_figure("size=16", **PHONE)
    box, size = f.box(), f.cell()
    f.page.touchscreen.tap(box["x"] + 2.5 * size, box["y"] + 4.5 * size)
    expect(f.live).to_contain_text("(4) attends to 'sat' (2)")


STEP_TIME = """async (figure) => {
  const next = figure.getRootNode().querySelector("[aria-label='Next head']");
  const painted = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  const times = { first: [], whole: [] };
  for (let i = 0; i < 4; i++) {
    const start = performance.now();
    next.click();
    await painted();
    times.first.push(Math.round(performance.now() - start));
    while (figure.getAttribute("aria-busy") === "true") await new Promise((done) => setTimeout(done, 1));
    await painted();
    times.whole.push(Math.round(performance.now() - start));
    await new Promise((done) => setTimeout(done, 400));
  }
  return times;
}"""


@pytest.mark.parametrize("view", ["map", "lines"])
@pytest.mark.parametrize("size", [16, 128, 256, 512])
def test_stepping_heads_is_fast(open_figure, view: str, size: int) -> None:
    f = open_figure(f"size={size}&view={view}&heads=6")
    times = f.figure.evaluate(STEP_TIME)
    f.shows("L2H4")
    logger.info("%s of %d tokens: next head painted after %s ms", view, size, times)
    # Generous: a loaded machine is many times slower than a free one.
    assert sorted(times["first"])[1] < 1500
    # Beyond the budget the whole weights come from Python; until then the thumbnail's are shown.
    assert size <= 256 or sorted(times["whole"])[1] < 8000
