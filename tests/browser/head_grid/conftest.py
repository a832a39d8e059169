"""A server with the stub page, a Chromium, and a page object that speaks of heads."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.browser.component_stub import StubPage, opener, serve


@pytest.fixture(scope="session")
def stub_url() -> Iterator[str]:
    """Address of the stub page on a server of its own."""
    with serve(Path(__file__).with_name("stub_app.py")) as url:
        yield url


class Grid(StubPage):
    """The stub page with its head grid."""

    def __init__(self, page: Page, url: str) -> None:
        super().__init__(page, url)
        expect(self.grid()).to_be_visible(timeout=30_000)

    def grid(self, name: str = "Heads") -> Locator:
        return (
            self.page.get_by_role("grid", name=name, exact=True)
            if name != "Heads"
            else self.page.get_by_role("grid").first
        )

    def head(self, label: str) -> Locator:
        return self.page.get_by_role("gridcell").get_by_role("button", name=re.compile(rf"^{re.escape(label)},"))

    def row(self, layer: int) -> Locator:
        return self.page.get_by_role("rowheader").get_by_role("button", name=f"Layer {layer},")

    def column(self, head: int) -> Locator:
        return self.page.get_by_role("columnheader").get_by_role("button", name=f"Head {head},")

    def focused(self) -> str:
        """Accessible name of the focused button."""
        return self.page.evaluate(
            "() => { let e = document.activeElement; while (e?.shadowRoot) e = e.shadowRoot.activeElement;"
            " return e?.getAttribute('aria-label') ?? '' }"
        )

    def shown_off(self) -> set[str]:
        """Labels of the heads that the browser shows as off, cut ones left out."""
        names = (
            self.page.get_by_role("gridcell")
            .get_by_role("button", pressed=True)
            .evaluate_all("(all) => all.filter((b) => !b.ariaDisabled).map((b) => b.getAttribute('aria-label'))")
        )
        return {name.split(",")[0] for name in names}

    def expect_off(self, *labels: str) -> None:
        """Python and the browser both have exactly these heads off."""
        text = f"off={len(labels)} [{' '.join(sorted(labels))}]"
        expect(self.page.get_by_text(text, exact=True)).to_be_visible(timeout=20_000)
        end = time.monotonic() + 10
        while self.shown_off() != set(labels) and time.monotonic() < end:
            self.page.wait_for_timeout(50)
        assert self.shown_off() == set(labels)

    def click_button(self, name: str) -> None:
        self.page.get_by_role("button", name=name, exact=True).click()


OpenGrid = Callable[..., Grid]


@pytest.fixture
def open_grid(browser: Browser, stub_url: str) -> Iterator[OpenGrid]:
    """Opens the stub page in a fresh context; afterwards nothing may have gone wrong or to another host."""
    with opener(browser, stub_url, Grid) as open_one:
        yield open_one
