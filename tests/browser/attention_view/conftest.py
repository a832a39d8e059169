"""A server with the stub page, a Chromium, and a page object that speaks of the figure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.browser.component_stub import StubPage, opener, serve


@pytest.fixture(scope="session")
def attention_url() -> Iterator[str]:
    """Address of the stub page on a server of its own."""
    with serve(Path(__file__).with_name("stub_app.py")) as url:
        yield url


class Figure(StubPage):
    """The stub page with its attention view."""

    def __init__(self, page: Page, url: str) -> None:
        super().__init__(page, url)
        expect(self.figure).to_be_visible(timeout=30_000)

    @property
    def figure(self) -> Locator:
        return self.page.get_by_role("figure").first

    @property
    def map(self) -> Locator:
        return self.page.get_by_role("application").first

    @property
    def canvas(self) -> Locator:
        return self.figure.locator("canvas.av-canvas")

    def box(self, part: Locator | None = None) -> Any:
        """Where a part is on the page; the canvas if none is named."""
        found = (self.canvas if part is None else part).bounding_box()
        assert found is not None
        return found

    @property
    def tip(self) -> Locator:
        return self.figure.locator(".av-tip")

    @property
    def live(self) -> Locator:
        return self.figure.locator("[aria-live=polite]")

    def thumbnail(self, label: str) -> Locator:
        return self.figure.get_by_role("button", name=re.compile(rf"^{re.escape(label)},"))

    def token(self, side: str, position: int) -> Locator:
        return self.figure.get_by_role("button", name=re.compile(rf"^{side} '.*' \({position}\)$"))

    def label(self, axis: str, index: int) -> Locator:
        return self.figure.locator(f".av-{axis} .av-label[data-index='{index}']")

    def cell(self) -> float:
        """Size of a cell in pixels."""
        return self.figure.locator(".av-rows").evaluate(
            "(e) => parseFloat(getComputedStyle(e).getPropertyValue('--av-cell'))"
        )

    def point(self, query: int, key: int) -> None:
        """Moves the mouse over a cell of the map."""
        box, size = self.box(), self.cell()
        self.page.mouse.move(box["x"] + (key + 0.5) * size, box["y"] + (query + 0.5) * size)

    def pixel(self, query: int, key: int) -> list[int]:
        """Colour [r, g, b, alpha] on the canvas, near the corner of a cell so that no label or mark is met."""
        return self.canvas.evaluate(
            "(c, [x, y]) => [...c.getContext('2d').getImageData(x, y, 1, 1).data]",
            [round((key + 0.3) * self.cell()), round((query + 0.3) * self.cell())],
        )

    def shows(self, label: str) -> None:
        expect(self.figure).to_have_attribute("data-painted", label, timeout=10_000)


OpenFigure = Callable[..., Figure]


@pytest.fixture
def open_figure(browser: Browser, attention_url: str) -> Iterator[OpenFigure]:
    """Opens the stub page in a fresh context; afterwards nothing may have gone wrong or to another host."""
    with opener(browser, attention_url, Figure) as open_one:
        yield open_one
