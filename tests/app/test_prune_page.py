"""The page that prunes: its curve, budget and cut against the library, on small models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from headlens.ui import prune_curve, prune_speed
from headlens.ui.cache import jobs
from tests.app.conftest import Open, settle

PAGE = "pages/prune.py"


def _texts(app: AppTest) -> str:
    return " ".join(element.value for element in [*app.markdown, *app.caption]).replace("\\", "")


def _press(app: AppTest, key: str) -> AppTest:
    app.button(key=key).click().run()
    app = settle(app)
    assert not app.exception
    return app


def _made(app: AppTest) -> Any:
    job = jobs().get(app.session_state["hl_cut_key"])
    assert job is not None
    assert job.error == ""
    return job.result


def test_from_the_curve_to_a_smaller_model(
    open_app: Open, models: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from headlens.data.select import load_data
    from headlens.evaluate import evaluate
    from headlens.lens import open_model
    from headlens.metrics import METRICS
    from headlens.ui.choices import encode_for

    app = settle(open_app(PAGE, model=models["gpt2"], method="magnitude"))
    assert not app.exception
    assert "Draw the curve to see" in _texts(app)
    app = _press(app, "curve_start")
    assert "random order" in _texts(app)
    app.radio(key="_cut_which").set_value("share").run()
    app.select_slider(key="_cut_share").set_value(50).run()
    assert "**6 of 12 heads** are chosen" in _texts(app)
    app = _press(app, "cut_start")
    made = _made(app)

    lens, smaller = open_model(models["gpt2"]), open_model(str(made.folder))
    assert len(smaller.topology.heads()) == 6
    data = load_data("stories", task=lens.task, split="held-out")
    masked = evaluate(lens, encode_for(lens, data), made.off, metric=METRICS["loss"]).main.value
    assert evaluate(
        smaller, encode_for(smaller, data), smaller.topology.parse("none"), metric=METRICS["loss"]
    ).main.value == pytest.approx(masked, abs=1e-5)
    shown = {metric.label: metric.value for metric in app.metric}
    assert shown["Heads"] == "6"
    assert shown["Parameters"] == f"{smaller.parameters:,}"

    monkeypatch.setitem(prune_speed.EFFORTS, "quick", ((1,), 3))
    app = _press(app, "speed_start")
    frames = [frame.value for frame in app.dataframe]
    assert frames[0]["model"].tolist() == ["full", "masked", "cut"]
    assert frames[0]["parameters"].tolist()[2] == f"{smaller.parameters:,}"
    assert set(frames[1]["model"]) == {"full", "full again", "masked", "cut"}

    app = _press(app, "report_start")
    job = jobs().get(app.session_state["hl_job_report"])
    assert job is not None
    assert job.result.lstrip().lower().startswith("<!doctype html>")
    assert f"{masked:.4g}" in job.result or f"{masked:.3f}" in job.result

    choice = json.loads((made.folder / "headlens.json").read_text())["choice"]
    assert (choice["method"], choice["fraction"], choice["count"], choice["floor"]) == ("magnitude", 0.5, 6, 0)
    app.button(key="cut_open").click().run()
    assert app.session_state["hl_model"] == str(made.folder)
    assert not app.exception


def test_heads_that_were_chosen_by_hand_are_not_said_to_be_by_the_curve_s_method(
    open_app: Open, models: dict[str, str]
) -> None:
    app = _press(settle(open_app(PAGE, model=models["gpt2"], method="magnitude-ov", off="L0H1,L2H3")), "curve_start")
    app.radio(key="_cut_which").set_value("switches").run()
    made = _made(_press(app, "cut_start"))
    assert {head.label for head in made.off} == {"L0H1", "L2H3"}
    assert json.loads((made.folder / "headlens.json").read_text())["choice"] == {}
    assert "chosen by the method" not in (made.folder / "README.md").read_text()


def test_what_learned_gates_closed_can_be_cut(
    open_app: Open, models: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from headlens.lens import open_model
    from headlens.report.choice import Why

    monkeypatch.setattr(prune_curve, "PENALTIES", (1e-6, 5.0))
    monkeypatch.setattr(prune_curve, "GATE_STEPS", 60)
    app = settle(open_app(PAGE, model=models["gpt2"], method="magnitude"))
    app.toggle(key="_curve_gates").set_value(True).run()
    app.number_input(key="_curve_floor").set_value(1).run()
    app = _press(app, "curve_start")
    found = jobs().get(app.session_state["hl_job_curve"])
    assert found is not None
    (closed,) = [point for point in found.result.series("gates") if point.heads_off]
    app.radio(key="_cut_which").set_value("gates").run()
    made = _made(_press(app, "cut_start"))
    assert made.off == closed.result.off
    choice = json.loads((made.folder / "headlens.json").read_text())["choice"]
    assert (choice["method"], choice["penalty"], choice["data"]) == ("learned gates", 5.0, "stories")
    assert (choice["floor"], closed.heads_off) == (1, 9)
    total = len(open_model(models["gpt2"]).topology.heads())
    assert "those that learned gates closed" in Why(choice, count=len(made.off), total=total).sentence()


def test_one_site_and_the_greedy_order(open_app: Open, models: dict[str, str]) -> None:
    app = settle(open_app(PAGE, model=models["t5"], method="magnitude"))
    app.selectbox(key="_curve_site").set_value("cross").run()
    app.toggle(key="_curve_greedy").set_value(True).run()
    app = _press(app, "curve_start")
    found = jobs().get(app.session_state["hl_job_curve"])
    assert found is not None
    assert found.error == ""
    curve = found.result
    assert {head.site for point in curve.points for head in point.result.off} == {"cross"}
    assert [p.heads_off for p in curve.series("greedy")] == [p.heads_off for p in curve.series("ranked")]


def test_the_switchboard_s_heads_can_be_cut(open_app: Open, models: dict[str, str]) -> None:
    app = settle(open_app(PAGE, model=models["llama"], off="L0H0,L1H2"))
    assert "Or cut the 2 heads" in _texts(app)
    made = _made(_press(app, "cut_start"))
    assert {head.label for head in made.off} == {"L0H0", "L1H2"}
    assert Path(made.folder, "headlens.json").is_file()


def test_a_budget_that_nothing_meets_is_said(open_app: Open, models: dict[str, str]) -> None:
    app = _press(settle(open_app(PAGE, model=models["encoder"], method="magnitude")), "curve_start")
    app.number_input(key="_budget_drift").set_value(0.0).run()
    assert not app.exception
    assert "nothing" in _texts(app)
    assert "No heads are chosen yet." in _texts(app)


def test_all_heads_cannot_be_cut(open_app: Open, models: dict[str, str]) -> None:
    app = settle(open_app(PAGE, model=models["gpt2"], off="L0,L1,L2"))
    assert any("Every head is chosen" in warning.value for warning in app.warning)
    assert "cut_start" not in {button.key for button in app.button}


def test_each_layer_with_one_head(open_app: Open, models: dict[str, str]) -> None:
    app = _press(settle(open_app(PAGE, model=models["gpt2"])), "one_head_start")
    assert "layers" in _texts(app)


def test_recovery_shows_its_curve_and_table(open_app: Open, models: dict[str, str]) -> None:
    from headlens.lens import open_model

    app = _press(settle(open_app(PAGE, model=models["gpt2"], off="L0H0,L1H2")), "cut_start")
    app.number_input(key="_recover_steps").set_value(4).run()
    app.number_input(key="_recover_control").set_value(1).run()
    app = _press(app, "recover_start")
    assert _made(app) is not None
    (frame,) = [frame.value for frame in app.dataframe]
    rows = ["full", "cut", "cut + recovered", "random cut (seed 0)", "random cut + recovered (seed 0)"]
    assert frame["model"].tolist() == rows
    job = jobs().get(app.session_state["hl_job_recover"])
    assert job is not None
    assert len(job.partial) >= 2
    assert "Step 4 of at most 4:" in _texts(app)
    folder = job.result.folder
    assert len(open_model(str(folder)).topology.heads()) == 10
    told = json.loads((folder / "headlens.json").read_text())["recovery"]
    assert [row["name"] for row in told["table"]][-1] == "random cut + recovered"  # so the report knows of the control
    assert told["command"].endswith(f"--steps 4 --control 1 --out {folder.name}")
    buttons = {element.proto.label.split(" (")[0] for element in app.get("download_button")}  # type: ignore[attr-defined]
    assert {"Cut model", "Recovered model"} <= buttons
