"""Live numbers of the interview page: from the store, and checked on request."""

from __future__ import annotations

import time

import pytest
from streamlit.testing.v1 import AppTest

from headlens.claims.examples import make_context
from headlens.claims.export import number
from headlens.claims.registry import find_claims
from headlens.claims.run import check_all
from headlens.lens import open_model
from headlens.store import Store
from tests.app.conftest import Open
from tests.app.interview_kit import PAGE, section, texts

pytestmark = pytest.mark.usefixtures("learner")


def read(app: AppTest, part: str) -> AppTest:
    """Opens a text."""
    app.session_state["hl_iv_part"] = part
    return app.run()


def test_what_the_command_line_measured_is_on_the_page(open_app: Open, models: dict[str, str]) -> None:
    """As ``headlens claims MODEL`` does it, with its own defaults."""
    context = make_context(open_model(models["llama"]), store=Store())
    (found,) = check_all(context, find_claims(["single-head-layers"]))
    app = read(open_app(PAGE, model=models["llama"]), "Long version")
    assert not app.exception
    said = f"On this model: “Some layers do with a single head” {found.finding.verdict}, {number(found)}"
    assert said in texts(app)
    assert texts(app).count("On this model:") == 1
    assert "In the runs of the lab:" in texts(app)  # nothing has to be computed for that


def test_what_is_not_measured_is_offered_with_its_cost_and_checked(open_app: Open, models: dict[str, str]) -> None:
    app = read(open_app(PAGE, model=models["encoder"]), "Senior view")
    assert "On this model:" not in texts(app)
    button = app.button(key="_iv_check_main")
    assert "of these statements on small-encoder (about" in button.label.replace("\\", "")
    button.click().run()
    assert "_iv_check_main" not in [each.key for each in app.button]
    watch(app)
    assert not app.exception
    said = texts(app)
    assert "On this model:" in said  # zero and mean ablation of a bare encoder, by drift
    assert "_iv_check_main" not in [each.key for each in app.button]
    again = section(app, "Cheat sheet")
    assert not again.exception


def watch(app: AppTest, seconds: float = 120) -> None:
    """Runs the page as a browser that polls, until the work has ended."""
    from headlens.ui.cache import jobs

    end = time.monotonic() + seconds
    while jobs().running() and time.monotonic() < end:
        time.sleep(0.5)
        app.run()
    app.run()


def test_the_text_is_there_before_the_model(
    open_app: Open, models: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The question is drawn when the model begins to open."""
    from headlens.ui import interview_page

    asked_for: list[str] = []
    monkeypatch.setattr(interview_page, "open_late", lambda: asked_for.append("model"))
    app = open_app(PAGE, model=models["gpt2"])
    assert asked_for == ["model"]
    assert not app.exception
    assert "hl_opened" not in app.session_state
    assert any(radio.label == "Your answer" for radio in app.radio)
    assert "A piece of text, often a word or a part of one" in texts(app)
