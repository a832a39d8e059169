"""The page about the server, and how limits look on the pages (that they hold by themselves: unit/server)."""

from __future__ import annotations

import pytest

from tests.app.conftest import Open, grid, settle

PAGE = "pages/health.py"


def test_it_says_how_the_server_is_without_opening_a_model(open_app: Open, models: dict[str, str]) -> None:
    from headlens.ui.cache import server_health, shelf

    before = {held.name for held in shelf().held()}
    app = open_app(PAGE, model=models["gpt2"])
    assert not app.exception
    found = server_health()
    shown = {metric.label: metric.value for metric in app.metric}
    assert shown["Answers to clicks"] == "0 at work"
    assert {"Background work", "Turned away", "Memory", "Store"} <= set(shown)
    notes = [caption.value for caption in app.caption]
    assert f"0 of {found.switches.places} places in the line taken" in notes
    assert {held.name for held in shelf().held()} == before
    assert any("Profile: own" in text.value.replace("\\", "") for text in app.markdown)
    assert app.query_params["model"] in (models["gpt2"], [models["gpt2"]])


def test_no_path_of_a_model_is_shown(open_app: Open, models: dict[str, str]) -> None:
    settle(open_app(model=models["gpt2"], method="magnitude"))
    app = open_app(PAGE)
    names = list(app.dataframe[0].value["model"])
    assert "other" in names
    assert not any("/" in name for name in names)


def test_the_demo_offers_its_models_and_drops_others_from_the_link(
    open_app: Open, models: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADLENS_PROFILE", "demo")
    monkeypatch.setenv("HEADLENS_MODELS", "zoo-gpt2-small")
    app = open_app(model=models["gpt2"], method="magnitude")
    assert not app.exception
    assert any("opens no folders" in warning.value.replace("\\", "") for warning in app.warning)
    assert app.sidebar.radio[0].options == ["Ready offline"]
    assert len(app.sidebar.selectbox(key="_model_ready").options) == 1
    assert grid(app)["grids"]


@pytest.mark.parametrize("page", ["app.py", PAGE])
def test_a_limit_that_cannot_be_read_stops_every_page_with_one_line(
    open_app: Open, monkeypatch: pytest.MonkeyPatch, page: str
) -> None:
    monkeypatch.setenv("HEADLENS_TRAINING", "perhaps")
    app = open_app(page)
    assert not app.exception
    (error,) = app.error
    assert "HEADLENS_TRAINING" in error.value.replace("\\", "")
    assert not app.metric


def test_a_switch_in_a_full_line_is_told_in_place(
    open_app: Open, models: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from headlens.server.turns import BusyError
    from headlens.ui import cache

    app = settle(open_app(model=models["gpt2"], method="magnitude"))

    def full(*_: object) -> None:
        raise BusyError("the server is busy: 400 computations wait already; try again in about 7 s")

    monkeypatch.setattr(cache.switches(), "turn", full)
    app.query_params["off"] = "L0H2,L1H3"
    app.run()
    assert not app.exception
    assert any("the server is busy" in warning.value for warning in app.warning)
    assert grid(app)["off"] == ["L0H2", "L1H3"]


def test_the_store_is_kept_within_its_limit_after_a_job(monkeypatch: pytest.MonkeyPatch) -> None:
    import numpy as np

    from headlens.store import unit_key
    from headlens.ui import cache

    store = cache.store()
    keys = [unit_key(kind="filling", number=number) for number in range(4)]
    for key in keys:
        store.put(key, {"x": np.zeros(60_000)})
    monkeypatch.setenv("HEADLENS_STORE_MB", "1")
    cache._store_size.clear()
    cache.trim_store()
    assert store.size() <= 2**20
    assert keys[-1] in store
    monkeypatch.setenv("HEADLENS_STORE_MB", "much")
    cache.trim_store()  # told in the log, and no thread dies of it
