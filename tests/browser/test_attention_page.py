"""The attention page in a real browser: token labels in every script, stepping by keyboard, links from elsewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.browser.conftest import SLOW, App, AppServer

pytestmark = pytest.mark.browser
PROMPT = "Ein Haus 你好 مرحبا 👩‍👩‍👧"


@pytest.fixture
def app(browser: Browser, server: AppServer, small_model: str) -> Iterator[App]:
    """The page, opened by its own link."""
    opened = App(browser.new_context(viewport={"width": 1280, "height": 1100}).new_page())
    opened.page.goto(server.link("attention", model=small_model))
    expect(_figure(opened.page)).to_be_visible(timeout=SLOW)
    opened.expect_finished()
    yield opened
    opened.page.context.close()
    known = re.compile(r"/attention/_stcore/(health|host-config)$")
    assert [problem for problem in opened.problems if not known.search(problem)] == []
    assert opened.hosts == {"127.0.0.1"}


def _figure(page: Page) -> Locator:
    return page.get_by_role("figure")


def _write(app: App, text: str) -> None:
    box = app.page.get_by_role("textbox", name="Prompt")
    box.fill(text)
    box.press("Control+Enter")
    app.page.wait_for_timeout(400)
    app.expect_finished()


def test_tokens_can_be_read_in_every_script(app: App, small_model: str) -> None:
    from transformers import AutoTokenizer

    from headlens.tokens import readable_tokens

    _write(app, PROMPT)
    app.page.get_by_role("radio", name="Lines").click()
    tokenizer = AutoTokenizer.from_pretrained(small_model)
    labels = [label.text for label in readable_tokens(tokenizer, tokenizer(PROMPT)["input_ids"])]
    assert "你¹⁄₃" in labels
    figure = _figure(app.page)
    for label in ("你¹⁄₃", *[label for label in labels if label.isalpha() and len(label) > 1][:3]):
        expect(figure.get_by_text(label, exact=True).first).to_be_visible(timeout=SLOW)


def test_heads_are_stepped_through_by_keyboard(app: App) -> None:
    figure = _figure(app.page)
    expect(figure).to_have_attribute("data-painted", "L0H0")
    figure.get_by_role("button", name=re.compile("^L0H0")).focus()
    app.page.keyboard.press("ArrowRight")
    expect(figure).to_have_attribute("data-painted", "L0H1")
    expect(app.page.get_by_text(re.compile("^L0H1 looks hardest"))).to_be_visible(timeout=SLOW)
    app.page.keyboard.press("ArrowDown")
    expect(figure).to_have_attribute("data-painted", "L1H1", timeout=SLOW)
    expect(app.page.get_by_text(re.compile("^L1H1 looks hardest"))).to_be_visible(timeout=SLOW)
    assert app.focused().startswith("L1H1")
    # A change of colours keeps the head.
    app.page.get_by_role("radio", name="as it is").click()
    app.expect_still()
    expect(figure).to_have_attribute("data-painted", "L1H1")


def test_the_first_token_can_be_hidden(app: App) -> None:
    figure = _figure(app.page)
    expect(app.page.get_by_text(re.compile("^The first token gets"))).to_be_visible()
    figure.get_by_role("checkbox", name="Hide first token").check()
    expect(figure.get_by_text(re.compile("The first token is hidden"))).to_be_visible(timeout=SLOW)


def test_the_model_writes_on(app: App) -> None:
    _write(app, "The cat sat")
    app.page.get_by_role("radio", name="8 tokens").click()
    expect(app.page.get_by_text(re.compile("^The model wrote the last"))).to_be_visible(timeout=SLOW)
    expect(app.page.get_by_role("textbox", name="Prompt")).to_have_value("The cat sat")


def test_the_text_that_shows_a_role_best(app: App) -> None:
    box = app.page.get_by_role("textbox", name="Prompt")
    before = box.input_value()
    app.page.get_by_role("button", name="Look at the text that shows it best").click()
    expect(box).not_to_have_value(before, timeout=SLOW)
    app.expect_finished()
    expect(_figure(app.page)).to_be_visible()


def test_what_was_written_survives_switching_pages(app: App) -> None:
    _write(app, "A prompt of my own")
    app.page.get_by_role("link", name="Switchboard").click()
    expect(app.page.get_by_role("grid", name="Heads")).to_be_visible(timeout=SLOW)
    expect(app.page.get_by_role("textbox", name="Prompt")).to_have_value("A prompt of my own")
    app.page.get_by_role("link", name="Attention").click()
    expect(_figure(app.page)).to_be_visible(timeout=SLOW)
    expect(app.page.get_by_role("textbox", name="Prompt")).to_have_value("A prompt of my own")
    assert "my+own" not in app.page.url
    assert "my%20own" not in app.page.url
