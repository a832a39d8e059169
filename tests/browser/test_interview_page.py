"""The interview page in a real browser: one full drill by keyboard, leaving, coming back, and the printed page."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from headlens.interview.bank import Bank, load_bank
from headlens.interview.cheatsheet import cheat_sheet
from headlens.interview.questions import Choice
from headlens.interview.shape import Shape, published
from tests.browser.conftest import SLOW, App, AppServer

pytestmark = pytest.mark.browser
HARMLESS = re.compile(r"/interview/_stcore/(health|host-config)$")
"""A deep link makes Streamlit ask below the page's path first; the answer 404 is harmless."""

LARGEST = published(
    "A model with a name that needs a second line in the table of its numbers",
    layers=126,
    heads=128,
    kv_heads=8,
    d_head=128,
    d_model=16384,
    parameters=405_000_000_000,
    bias=False,
)


class LearnersServer(AppServer):
    """The app with a learner of its own."""

    @property
    def environment(self) -> dict[str, str]:
        return {**super().environment, "HEADLENS_DATA": str(self.cache / "data")}


@pytest.fixture(scope="module")
def learner(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LearnersServer]:
    started = LearnersServer(tmp_path_factory.mktemp("interview-cache"))
    started.start()
    yield started
    started.kill()


@pytest.fixture(scope="module")
def bank() -> Bank:
    return load_bank()


@pytest.fixture
def visit(browser: Browser, learner: LearnersServer, small_model: str) -> Iterator[object]:
    """Opens the page in a fresh browser session; afterwards nothing may have gone wrong or to another host."""
    opened: list[App] = []

    def open_one(**context: object) -> Page:
        app = App(browser.new_context(**{"viewport": {"width": 1280, "height": 1000}, **context}).new_page())  # type: ignore[arg-type]
        opened.append(app)
        app.page.goto(learner.link("interview", model=small_model))
        # The first visit of a server imports torch and opens the model.
        expect(app.page.get_by_role("heading", name="The interview answer")).to_be_visible(timeout=2 * SLOW)
        return app.page

    yield open_one
    for app in opened:
        app.page.context.close()
        assert [problem for problem in app.problems if not HARMLESS.search(problem)] == []
        assert app.hosts == {"127.0.0.1"}


def idle(page: Page) -> None:
    expect(page.get_by_test_id("stApp")).to_have_attribute("data-test-script-state", "notRunning", timeout=SLOW)


def part(page: Page, name: str) -> None:
    page.get_by_test_id("stMain").get_by_text(name, exact=True).first.click()
    expect(page.get_by_role("heading", name=name, level=2)).to_be_visible(timeout=SLOW)
    idle(page)


def choose(page: Page, question: Choice) -> None:
    """Picks the right option and answers, by keyboard alone."""
    group = page.get_by_role("radiogroup", name="Your answer")
    expect(group).to_be_visible(timeout=SLOW)
    right = group.get_by_role("radio", name=re.compile(re.escape(question.options[question.key].text)))
    first = group.get_by_role("radio").first
    first.focus()
    page.keyboard.press("Space")
    for _ in range(len(question.options)):
        if right.is_checked():
            break
        page.keyboard.press("ArrowDown")
    expect(right).to_be_checked()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_role("status").filter(has_text="Right.")).to_be_visible(timeout=SLOW)


def test_a_drill_by_keyboard_leaving_and_coming_back(visit: object, bank: Bank, learner: LearnersServer) -> None:
    page = visit()  # type: ignore[operator]
    part(page, "Drill")
    page.get_by_role("button", name="Start the drill").click()
    for number in range(5):
        expect(page.get_by_text(re.compile(rf"Question {number + 1} of "))).to_be_visible(timeout=SLOW)
        idle(page)
        heading = page.get_by_role("heading", level=3).first.inner_text()
        question = next((q for q in bank.questions.values() if q.ask == heading), None)
        if isinstance(question, Choice):
            choose(page, question)
        else:
            page.get_by_role("button", name="Skip").click()
            continue
        if number == 1:
            page.get_by_role("link", name="Switchboard").click()
            expect(page.get_by_role("heading", name="Switch heads off")).to_be_visible(timeout=SLOW)
            page.get_by_role("link", name="Interview").click()
            expect(page.get_by_role("heading", level=3).first).to_have_text(question.ask, timeout=SLOW)
            expect(page.get_by_role("status").filter(has_text="Right.")).to_be_visible(timeout=SLOW)
        name = "See how it went" if number == 4 else "Next question"
        page.get_by_role("button", name=name).click()
    expect(page.get_by_text(re.compile(r"right at the first go"))).to_be_visible(timeout=SLOW)
    log = learner.cache / "data" / "interview" / "progress.jsonl"
    kept = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    assert 1 <= len(kept) <= 5
    assert all(event["right"] for event in kept)
    again = visit()  # type: ignore[operator]
    part(again, "Progress")
    answered = again.get_by_test_id("stMetric").filter(has_text="Answers").get_by_test_id("stMetricValue")
    expect(answered).to_have_text(str(len(kept)), timeout=SLOW)


CONTRASTS = """() => {
    const rgba = (text) => { const found = text.match(/[\\d.]+/g).map(Number); return [...found, 1].slice(0, 4) }
    const over = ([r, g, b, a], below) => [r, g, b].map((value, i) => value * a + below[i] * (1 - a))
    const light = (colour) => colour.map((value) => value / 255)
        .map((value) => value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4)
        .reduce((sum, value, i) => sum + value * [0.2126, 0.7152, 0.0722][i], 0)
    const found = []
    for (const element of document.querySelectorAll('.stApp :is(p, a, li, h1, h2, h3, kbd, label, td, [data-tag])')) {
        const box = element.getBoundingClientRect()
        if (!element.textContent.trim() || box.width < 2 || element.closest('[disabled]')) continue
        const above = []
        for (let each = element; each; each = each.parentElement) above.unshift(each)
        let ground = [255, 255, 255], opacity = 1
        for (const each of above) {
            ground = over(rgba(getComputedStyle(each).backgroundColor), ground)
            opacity *= getComputedStyle(each).opacity
        }
        const [r, g, b, a] = rgba(getComputedStyle(element).color)
        const [one, two] = [light(over([r, g, b, a * opacity], ground)), light(ground)].sort((x, y) => y - x)
        found.push([(one + 0.05) / (two + 0.05), element.textContent.trim().slice(0, 40)])
    }
    return found
}"""
"""The ratio of each text to its ground, by the formula of WCAG 2.1; 4.5 is asked for."""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_can_be_read(visit: object, scheme: str) -> None:
    page = visit(color_scheme=scheme)  # type: ignore[operator]
    for name in ("The question", "Drill", "Mock interview", "Cheat sheet"):
        part(page, name)
        if name == "Drill":
            page.get_by_role("combobox", name=re.compile("Topics")).click()
            page.get_by_role("option", name="Speed and size").click()
            idle(page)
        found, faint = [], []
        for _ in range(50):  # the page's styles come a moment after its elements, and colours fade in
            found = page.evaluate(CONTRASTS)
            faint = [(ratio, text) for ratio, text in found if ratio < 4.5]
            if not faint:
                break
            page.wait_for_timeout(100)
        assert len(found) > 20
        assert faint == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_phone_width_has_no_sideways_overflow(visit: object, scheme: str) -> None:
    page = visit(viewport={"width": 390, "height": 844}, color_scheme=scheme)  # type: ignore[operator]
    for name in ("The question", "Drill", "Mock interview", "Progress", "Cheat sheet"):
        part(page, name)
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def test_the_picture_is_there_and_described(visit: object, bank: Bank) -> None:
    page = visit()  # type: ignore[operator]
    page.get_by_test_id("stMain").get_by_text("Two sentences", exact=True).click()
    image = page.get_by_role("img", name=re.compile(r"^Three pictures side by side"))
    expect(image).to_be_visible(timeout=SLOW)
    assert image.evaluate("(image) => image.naturalWidth") > 0


@pytest.mark.parametrize("paper", ["A4", "Letter"])
@pytest.mark.parametrize("shape", [None, LARGEST])
def test_the_cheat_sheet_prints_on_one_page(browser: Browser, bank: Bank, paper: str, shape: Shape | None) -> None:
    page = browser.new_page()
    page.set_content(cheat_sheet(bank, shape))
    pdf = page.pdf(format=paper)
    page.close()
    assert len(re.findall(rb"/Type\s*/Page[^s]", pdf)) == 1
