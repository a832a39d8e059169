"""The switchboard: its figures against the engine's, its presets, and what streams in behind."""

from __future__ import annotations

import math
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from tests.app.conftest import Open, click, grid, settle

PAGE = "pages/switchboard.py"


def _metric(app: AppTest, title: str) -> tuple[float, float | None]:
    found = next(metric for metric in app.metric if metric.label.startswith(title))
    return tuple(None if not text else float(text.rstrip("%")) for text in (found.value, found.delta))  # type: ignore[return-value]


def _texts(app: AppTest) -> str:
    return " ".join(element.value for element in [*app.markdown, *app.caption]).replace("\\", "")


@pytest.mark.parametrize("ablation", ["zero", "mean", "resample"])
def test_figures_are_those_of_evaluate_on_the_live_set(open_app: Open, models: dict[str, str], ablation: str) -> None:
    from headlens.data.select import live_set
    from headlens.evaluate import evaluate
    from headlens.lens import open_model
    from headlens.metrics import METRICS

    app = click(settle(open_app(PAGE, model=models["gpt2"], ablation=ablation)), ["L1H2", "L2H0"], 1)
    assert not app.exception
    lens = open_model(models["gpt2"])
    off = lens.topology.parse("L1H2,L2H0")
    found = evaluate(lens, live_set(lens), off, metric=METRICS["loss"], ablation=ablation)  # type: ignore[arg-type]
    loss, accuracy, drift = (found.measured[name] for name in ("loss", "accuracy", "drift"))
    assert _metric(app, "Loss") == pytest.approx((loss.value, loss.delta), abs=1e-4)
    after, before = math.exp(loss.value), math.exp(loss.baseline)
    assert _metric(app, "Perplexity") == pytest.approx((after, after - before), abs=0.01)
    assert _metric(app, "Accuracy") == pytest.approx((100 * accuracy.value, 100 * accuracy.delta), abs=0.06)
    assert _metric(app, "Drift")[0] == pytest.approx(drift.value, abs=1e-4)
    assert f"before {loss.baseline:.4f}; change ± {loss.delta_sem:.4f}" in _texts(app)


@pytest.mark.parametrize(("family", "titles"), [("encoder", ["Drift"]), ("t5", ["Loss", "Perplexity"])])
def test_figures_suit_the_task(open_app: Open, models: dict[str, str], family: str, titles: list[str]) -> None:
    app = settle(open_app(PAGE, model=models[family]))
    assert not app.exception
    assert [metric.label for metric in app.metric][: len(titles)] == titles


def test_presets_set_what_they_say(open_app: Open, models: dict[str, str]) -> None:
    app = settle(open_app(PAGE, model=models["gpt2"], method="magnitude"))
    scores = {
        f"L{layer}H{head}": float(text)
        for layer, row in enumerate(grid(app)["grids"][0]["text"])
        for head, text in enumerate(row)
    }
    app.number_input(key="_share").set_value(25).run()
    app.button(key="bottom").click().run()
    assert grid(app)["off"] == sorted(sorted(scores, key=scores.__getitem__)[:3])
    app.button(key="invert").click().run()
    assert len(grid(app)["off"]) == 9
    app.button(key="random").click().run()
    first = grid(app)["off"]
    assert len(first) == 3
    app.number_input(key="_seed").set_value(1).run()
    app.button(key="random").click().run()
    assert grid(app)["off"] != first
    app.number_input(key="_seed").set_value(0).run()
    app.button(key="random").click().run()
    assert grid(app)["off"] == first


def test_tools_of_one_layer_leave_the_others_alone(open_app: Open, models: dict[str, str]) -> None:
    app = settle(open_app(PAGE, model=models["gpt2"], off="L2H3"))
    app.selectbox(key="_layer_number_self").set_value(1).run()
    app.selectbox(key="_layer_keep_self_1").set_value(2).run()
    app.button(key="all_but_one").click().run()
    assert grid(app)["off"] == ["L1H0", "L1H1", "L1H3", "L2H3"]
    app.button(key="layer_off").click().run()
    assert grid(app)["off"] == ["L1H0", "L1H1", "L1H2", "L1H3", "L2H3"]
    app.button(key="layer_on").click().run()
    assert grid(app)["off"] == ["L2H3"]


def test_every_step_can_be_undone_and_redone(open_app: Open, models: dict[str, str]) -> None:
    app = settle(open_app(PAGE, model=models["gpt2"]))
    click(app, ["L0H0"], 1)
    app.button(key="invert").click().run()
    assert len(grid(app)["off"]) == 11
    app.button(key="undo").click().run()
    assert grid(app)["off"] == ["L0H0"]
    app.button(key="undo").click().run()
    assert grid(app)["off"] == []
    assert app.button(key="undo").disabled
    app.button(key="redo").click().run()
    app.button(key="redo").click().run()
    assert len(grid(app)["off"]) == 11
    assert app.button(key="redo").disabled


@pytest.mark.parametrize("ablation", ["zero", "mean"])
def test_both_texts_are_those_of_the_engine(open_app: Open, models: dict[str, str], ablation: str) -> None:
    from headlens.data.select import live_set
    from headlens.generation import continuations
    from headlens.lens import open_model
    from headlens.live import LiveEvaluator

    app = settle(open_app(PAGE, model=models["gpt2"], off="L0,L2H1", ablation=ablation))
    assert not app.exception
    lens = open_model(models["gpt2"])
    means = LiveEvaluator(lens, live_set(lens)).means() if ablation == "mean" else None
    prompt = app.text_area(key="_prompt").value
    off = lens.topology.parse("L0,L2H1")
    found = continuations(lens, prompt or "", off, max_new_tokens=24, means=means)
    assert found.first_difference is not None
    assert f"The texts part at token {found.first_difference + 1}:" in _texts(app)
    assert ("mean over the live set" in _texts(app)) is (ablation == "mean")


def test_resample_says_what_it_does_in_a_prompt(open_app: Open, models: dict[str, str]) -> None:
    app = settle(open_app(PAGE, model=models["gpt2"], off="L0", ablation="resample"))
    assert "A prompt has no other example to draw from" in _texts(app)


def test_the_held_out_half_and_the_single_effects_stream_in(open_app: Open, models: dict[str, str]) -> None:
    from headlens.data.encode import encode
    from headlens.data.select import load_data
    from headlens.evaluate import evaluate
    from headlens.lens import open_model
    from headlens.metrics import METRICS

    app = settle(open_app(PAGE, model=models["gpt2"], off="L0H1,L1H2"))
    lens = open_model(models["gpt2"])
    data = encode(lens, load_data("stories", task=lens.task, split="held-out"))
    main = evaluate(lens, data, lens.topology.parse("L0H1,L1H2"), metric=METRICS["loss"]).main
    assert f"from {main.baseline:.4f} to {main.value:.4f}" in _texts(app)
    assert "One at a time the 2 heads cost" in _texts(app)
    assert not app.get("progress")


def test_the_fewest_heads_are_searched_and_can_be_switched_off(open_app: Open, models: dict[str, str]) -> None:
    from headlens.attention import prompt_inputs
    from headlens.lens import open_model
    from headlens.minimal import smallest_change

    app = settle(open_app(PAGE, model=models["gpt2"]))
    app.button(key="smallest_start").click().run()
    settle(app)
    lens = open_model(models["gpt2"])
    found = smallest_change(lens, prompt_inputs(lens, app.text_area(key="_prompt").value or ""))
    assert found.sentence() in _texts(app)
    assert found.found
    app.button(key="smallest_use").click().run()
    assert grid(app.run())["off"] == sorted(found.off.split(","))


def test_a_long_prompt_keeps_its_end(open_app: Open, models: dict[str, str]) -> None:
    from headlens.lens import open_model
    from headlens.next_tokens import next_tokens
    from headlens.ui.effects import question

    app = settle(open_app(PAGE, model=models["gpt2"]))
    long = "many words " * 2_000 + "the end"
    app.text_area(key="_prompt").set_value(long).run()
    assert not app.exception
    assert "the last 512 are used" in _texts(app)
    lens = open_model(models["gpt2"])
    reading = question(lens, long)
    tokenizer: Any = lens.tokenizer
    whole = tokenizer(long)["input_ids"]
    assert reading.ids == whole[-512:]
    top = next_tokens(lens, reading.inputs(lens), lens.topology.parse("none"), k=6).top_before
    assert f"Most probable: “{top.label.text}” with {top.before:.1%}" in _texts(app)


def test_scores_are_measured_on_demand(open_app: Open, models: dict[str, str]) -> None:
    app = settle(open_app(PAGE, model=models["gpt2"], method="output-norm", data="essays"))
    assert "Coloured by weight magnitude until" in _texts(app)
    before = grid(app)["grids"][0]["text"]
    app.button(key="score_now").click().run()
    settle(app)
    assert "Coloured by weight magnitude until" not in _texts(app)
    assert grid(app)["grids"][0]["text"] != before
