"""A page that is open when the theme changes, as a system's theme does in the evening, has figures for the new one."""

from __future__ import annotations

import pytest

from tests.browser.conftest import SLOW, AppServer, OpenApp

pytestmark = pytest.mark.browser

INK = """(bright) => {
    const label = document.querySelector(".xtick text");
    const parts = label && getComputedStyle(label).fill.match(/[\\d.]+/g).slice(0, 3).map(Number);
    return parts && parts.every((part) => (bright ? part > 180 : part < 80));
}"""


def test_figures_follow_the_theme(open_app: OpenApp, server: AppServer, small_model: str) -> None:
    app = open_app(server.link(model=small_model, method="magnitude"), color_scheme="light")
    app.page.wait_for_function(INK, arg=False, timeout=SLOW)
    for scheme in ("dark", "light"):
        app.expect_still()
        app.page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        app.page.wait_for_function(INK, arg=scheme == "dark", timeout=SLOW)
