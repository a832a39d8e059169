"""The claims page on a small model: cost before, verdicts after, downloads, and links."""

from __future__ import annotations

import time

import pytest
from streamlit.testing.v1 import AppTest

from headlens.claims.registry import REGISTRY
from tests.app.conftest import Open

PAGE = "pages/claims.py"


def texts(app: AppTest) -> str:
    return "\n".join(element.value for element in (*app.markdown, *app.caption, *app.info, *app.warning))


def watch(app: AppTest, seconds: float = 120) -> AppTest:
    """Runs the page as a browser that polls, until the work has ended."""
    from headlens.ui.cache import jobs

    end = time.monotonic() + seconds
    while jobs().running() and time.monotonic() < end:
        time.sleep(0.5)
        app.run()
    return app.run()


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    """Only cheap claims, so that the test takes seconds."""
    from headlens.claims import registry
    from headlens.ui import claims_page

    names = ("cross-most-sensitive", "independent-at-init", "beats-chance")
    chosen = tuple(claim for claim in REGISTRY if claim.name in names)
    monkeypatch.setattr(registry, "REGISTRY", chosen)
    monkeypatch.setattr(claims_page, "REGISTRY", chosen)
    return names


def test_claims_are_offered_with_their_cost_checked_and_shown(
    open_app: Open, models: dict[str, str], few: tuple[str, ...]
) -> None:
    app = open_app(PAGE, model=models["gpt2"])
    assert not app.exception
    assert "Not checked yet; about" in texts(app)
    assert "Check 3 claims (about" in app.button(key="claims_start").label
    app.button(key="claims_start").click().run()
    watch(app)
    assert not app.exception
    assert not app.error
    said = texts(app)
    assert "Not checked yet" not in said
    assert "not measurable here" in said  # no cross-attention in GPT-2
    assert "linearly independent in 9 of 9 layers" in said
    assert "Of 3 claims 2 could be measured" in said
    downloads = {button.key for button in app.get("download_button")}  # type: ignore[attr-defined]
    assert {"claims_file_md", "claims_file_html", "claims_file_csv"} <= downloads
    app.button(key="claim_try_beats-chance").click().run()
    assert not app.exception
    assert "Prune for real" in [title.value for title in app.title]
    assert app.query_params["method"] == "gradient"


@pytest.mark.parametrize("family", ["t5", "encoder"])
def test_the_page_opens_on_other_kinds_of_models(open_app: Open, models: dict[str, str], family: str) -> None:
    app = open_app(PAGE, model=models[family])
    assert not app.exception
    assert not app.error
    assert len(app.button(key="claims_start").label)


def test_no_model_is_one_friendly_line(open_app: Open) -> None:
    app = open_app(PAGE, model="no-such-model-anywhere")
    assert not app.exception
    assert len(app.error) == 1
