"""The claims page on a small model: cost before, verdicts after, downloads, and links."""

from __future__ import annotations

import time

import pytest
from streamlit.testing.v1 import AppTest

from headlens.claims.registry import REGISTRY
from tests.app.conftest import Open, settle

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
    assert "no better than guessing" in said  # the model is untrained, so it beats no chance
    assert "Of 3 claims 1 could be measured" in said
    downloads = {button.key for button in app.get("download_button")}  # type: ignore[attr-defined]
    assert {"claims_file_md", "claims_file_html", "claims_file_csv"} <= downloads
    app.button(key="claim_try_independent-at-init").click().run()
    assert not app.exception
    assert "Learn with few heads, or keep few of many?" in [title.value for title in app.title]
    assert app.session_state["hl_lab_section"] == "At initialisation"


def test_every_link_opens_its_page_in_its_state(
    open_app: Open, models: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each state that a check of a claim hands over is one that its page knows."""
    from headlens.claims.base import Finding, Try
    from headlens.claims.run import Checked
    from headlens.ui import claims_page

    asked = {
        "additive": Try("a", "pages/switchboard.py", {"off": "L0H1,L2", "method": "ablation"}),
        "beats-chance": Try("b", "pages/prune.py", {"method": "gradient"}),
        "smaller-and-faster": Try("c", "pages/prune.py", {"off": "L1H0-H2", "cut_which": "switches"}),
        "zero-mean-agree": Try("d", "app.py", {"method": "ablation", "ablation": "mean"}),
        "sharing-keeps": Try("e", "pages/lab.py", {"lab_section": "Sharing"}),
        "roles-go-last": Try("f", "pages/attention.py"),
        "replicates": Try("g", "pages/families.py", {"replicate_kind": "texts"}),
    }
    claims = {claim.name: claim for claim in REGISTRY}
    found = [
        Checked(claims[name], Finding("holds", 0.5, 0.4, 0.6, "", "So it is.", again=again), 0.1)
        for name, again in asked.items()
    ]
    monkeypatch.setattr(claims_page, "found_so_far", lambda: found)
    monkeypatch.setattr(claims_page.background, "is_shown", lambda *_: True)
    for name, again in asked.items():
        app = open_app(PAGE, model=models["gpt2"])
        app.button(key=f"claim_try_{name}").click().run()
        assert not app.exception, name
        assert not app.error, name
        for key, value in again.state.items():
            assert app.session_state[f"hl_{key}"] == value, name
            if key in ("off", "method", "ablation"):
                assert app.query_params.get(key) in (value, [value]), name
        settle(app)


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
