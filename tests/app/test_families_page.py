"""The families page: what is kept is shown, what is missing is offered, measured and cancelled."""

from __future__ import annotations

import json
import time

import pytest
from streamlit.testing.v1 import AppTest

from headlens.families import run as families_run
from headlens.ui import cache, families_work
from tests.app.conftest import Open, grid
from tests.app.watching import watch

PAGE = "pages/families.py"


def texts(app: AppTest) -> str:
    found = [*app.markdown, *app.caption, *app.info]
    return " ".join(element.value for element in found).replace("\\", "")


@pytest.fixture
def two(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Two small models that have learnt something at hand, few tokens."""
    names = ["zoo-gpt2-small", "zoo-t5"]
    monkeypatch.setattr(families_work, "OPTIONS", families_run.Options(tokens=60))
    monkeypatch.setattr(families_run, "at_hand", lambda: names)
    return names


def test_missing_models_are_measured_and_stand_side_by_side(open_app: Open, two: list[str]) -> None:
    app = open_app(PAGE, model=two[0])
    assert not app.exception
    assert "No model is measured yet" in texts(app)
    assert app.button(key="families_start").label.replace("\\", "").startswith("Run the 2 missing models (about ")
    app.button(key="families_start").click().run()
    app = watch(app)
    assert not app.exception
    assert not app.error
    assert "families_start" not in {button.key for button in app.button}
    assert "median of 2 models" in texts(app)
    rows = families_run.kept_rows(two, families_work.OPTIONS, cache.store())
    (spec,) = [json.loads(each.proto.spec) for each in app.get("plotly_chart")]  # type: ignore[attr-defined]
    ours = next(trace for trace in spec["data"] if "measured here" in trace["name"])
    shown = dict(zip(ours["y"], ours["x"], strict=True))
    assert shown == pytest.approx({row.short: 100 * (row.findings["removable"].value or 0) for row in rows.values()})
    app.segmented_control(key="_families_measure").set_value("cross").run()
    assert not app.exception
    assert "cross-attention costs more" in texts(app)
    table = " ".join(element.proto.body for element in app.get("html"))  # type: ignore[attr-defined]
    assert "does not apply" in table  # GPT-2 has no cross-attention
    assert "Michel et al. 2019, §5; grade N" in table


def test_it_can_be_cancelled(open_app: Open, models: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(families_work, "OPTIONS", families_run.Options(tokens=2000))
    monkeypatch.setattr(families_run, "at_hand", lambda: [models["llama"]])
    app = open_app(PAGE, model=models["llama"])
    app.button(key="families_start").click().run()
    end = time.monotonic() + 60
    while "cancel_families" not in {button.key for button in app.button} and time.monotonic() < end:
        app.run()
    app.button(key="cancel_families").click().run()
    app = watch(app)
    assert not app.exception
    assert "Stopped." in texts(app)
    assert "families_start" in {button.key for button in app.button}


def test_the_map_is_coloured_by_role(open_app: Open) -> None:
    app = watch(open_app(model="zoo-gpt2-small"))
    assert grid(app)["marks"] is None
    app.segmented_control(key="_colour").set_value("role").run()
    app = watch(app)
    assert not app.exception
    sent = grid(app)["marks"]
    assert sum(each["count"] for each in sent["legend"]) == 16
    assert (
        f"{16 - next(each['count'] for each in sent['legend'] if each['title'] == 'no role')} of 16 heads have a role"
        in texts(app)
    )
    assert "Heads of the role" in texts(app)  # and when they go
