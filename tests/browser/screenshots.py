"""Makes the README's pictures: ``python -m tests.browser.screenshots ADDRESS`` with the app running there.

The page is shown as it is then: open it before, and give it time to compute what the pictures shall show.
"""

from __future__ import annotations

import sys
from pathlib import Path

from playwright.sync_api import Playwright, sync_playwright

from tests.browser.conftest import BROWSER_FLAGS, ROOT, SLOW, App, browser_path

FOLDER = ROOT / "assets" / "screenshots"
HEAD = "L1H4"
SIZE = {"width": 1280, "height": 960}


def shoot(playwright: Playwright, address: str, scheme: str, path: Path) -> None:
    """One picture of the first page with the card of a head."""
    browser = playwright.chromium.launch(executable_path=browser_path(playwright), args=BROWSER_FLAGS)
    page = browser.new_context(viewport=SIZE, color_scheme=scheme).new_page()  # type: ignore[arg-type]
    app = App(page).open(address)
    app.expect_finished()
    app.head(HEAD).hover()
    page.get_by_role("img", name=f"Attention of {HEAD}").wait_for(timeout=SLOW)
    app.expect_still()
    page.wait_for_timeout(1500)  # figures fade in
    page.screenshot(path=path)
    browser.close()


def main(address: str) -> None:
    """Light and dark."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        for scheme in ("light", "dark"):
            shoot(playwright, address, scheme, FOLDER / f"heads-{scheme}.png")


if __name__ == "__main__":
    main(sys.argv[1])
