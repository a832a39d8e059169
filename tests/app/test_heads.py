"""The first page: map, card, choices, agreement."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from tests.app.conftest import Open, click, grid, settle


def finished(app: AppTest) -> AppTest:
    """Runs the page until the jobs that follow one another (scores, then roles) are all done."""
    return settle(settle(app))


def scores(model: str, method: str, **options: Any) -> Any:
    """What the library computes, without the app's store or jobs."""
    from headlens.data.encode import encode
    from headlens.data.select import load_data
    from headlens.importance import METHODS, Request
    from headlens.importance.score import score
    from headlens.lens import open_model
    from headlens.metrics import METRICS

    normalize = options.pop("normalize", "none")
    lens = open_model(model)
    data = encode(lens, load_data("stories", task=lens.task, split="score"))
    return score(lens, METHODS[method], Request(METRICS["loss"], data, **options), normalize=normalize)


def shown(app: AppTest) -> np.ndarray:
    """Scores that the grid writes, ``[layer, head]``."""
    return np.array([[float(text) for text in row] for row in grid(app)["grids"][0]["text"]])


def pinned(open_app: Open, model: str, label: str, **query: str) -> AppTest:
    """The page with the card of ``label`` held."""
    app = finished(open_app(model=model, **query))
    app.selectbox(key="_card_head").set_value(label).run()
    return app


def table(app: AppTest) -> dict[str, list[str]]:
    """The card's rows by method."""
    html = next(block.proto.body for block in app.get("html") if "hl-scores>" in block.proto.body)  # type: ignore[attr-defined]
    rows = re.findall(r"<tr[^>]*><th scope=row>(.*?)</th>(.*?)</tr>", html)
    return {name: re.findall(r"<td>(.*?)</td>", cells) for name, cells in rows}


def test_the_card_has_the_scores_of_every_computed_method(open_app: Open, models: dict[str, str]) -> None:
    app = pinned(open_app, models["gpt2"], "L1H2")
    assert not app.exception
    found = table(app)
    expected = {
        "Leave one out (exact)": scores(models["gpt2"], "ablation"),
        "Gradient, signed": scores(models["gpt2"], "gradient", signed=True),
        "Weight magnitude (W_O)": scores(models["gpt2"], "magnitude"),
    }
    for name, scored in expected.items():
        value = float(found[name][0].replace("−", "-").split(" ")[0])
        assert value == pytest.approx(scored.array[1, 2], rel=2e-3), name
    rank = 1 + int((expected["Weight magnitude (W_O)"].flat() > expected["Weight magnitude (W_O)"].array[1, 2]).sum())
    assert found["Weight magnitude (W_O)"][1:] == [str(rank), f"{100 * (12 - rank) // 12} %"]


def test_no_ranks_where_there_is_no_signal(open_app: Open, models: dict[str, str]) -> None:
    app = pinned(open_app, models["gpt2"], "L0H0")  # a model of random weights is no better than guessing
    assert scores(models["gpt2"], "ablation").no_signal
    assert any("no better than guessing" in warning.value for warning in app.warning)
    assert table(app)["Leave one out (exact)"][1:] == ["no signal", ""]
    found = grid(app)
    assert found["ranked"] == 0
    assert all(rank is None for row in found["grids"][0]["rank"] for rank in row)


def test_the_card_tells_the_role_and_draws_where_the_head_looks(open_app: Open, models: dict[str, str]) -> None:
    app = pinned(open_app, models["gpt2"], "L2H3")
    assert any(text.value.startswith("Role: ") for text in app.markdown)
    picture = next(block.proto.body for block in app.get("html") if "hl-picture" in block.proto.body)  # type: ignore[attr-defined]
    assert 'alt="Attention of L2H3, rows look at columns' in picture
    assert "data:image/png;base64," in picture
    assert app.session_state["hl_attention_head"] == "L2H3"


def test_the_card_stays_pinned_and_can_be_let_go(open_app: Open, models: dict[str, str]) -> None:
    app = pinned(open_app, models["gpt2"], "L0H1")
    assert grid(app)["pinned"] == "L0H1"
    click(app, ["L2H2"], 1)
    assert grid(app)["pinned"] == "L0H1"
    app.button(key="card_pin").click().run()
    assert grid(app)["pinned"] is None


def test_the_card_switches_its_head(open_app: Open, models: dict[str, str]) -> None:
    app = pinned(open_app, models["gpt2"], "L0H1")
    app.button(key="card_switch").click().run()
    assert grid(app)["off"] == ["L0H1"]
    assert app.button(key="card_switch").label == "Switch on"
    app.button(key="card_switch").click().run()
    assert grid(app)["off"] == []


def test_the_card_of_a_group_switches_all_its_heads(open_app: Open, models: dict[str, str]) -> None:
    app = pinned(open_app, models["llama"], "L1G1", unit="kv")
    assert not app.exception
    app.button(key="card_switch").click().run()
    assert app.session_state["hl_off"] == "L1H2,L1H3"
    assert grid(app)["off"] == ["L1G1"]


def test_absolute_scores_are_sizes(open_app: Open, models: dict[str, str]) -> None:
    app = finished(open_app(model=models["gpt2"]))
    app.segmented_control(key="_direction").set_value("absolute").run()
    assert shown(app) == pytest.approx(np.abs(scores(models["gpt2"], "ablation").array), abs=1e-4)
    assert grid(app)["scale"]["kind"] == "sequential"


@pytest.mark.parametrize("signed", [True, False])
def test_gradient_is_signed_or_as_published(open_app: Open, models: dict[str, str], signed: bool) -> None:
    app = finished(open_app(model=models["gpt2"], method="gradient"))
    if not signed:
        app.segmented_control(key="_direction").set_value("absolute").run()
    assert shown(app) == pytest.approx(scores(models["gpt2"], "gradient", signed=signed).array, abs=1e-4)


def test_layers_can_be_normalised(open_app: Open, models: dict[str, str]) -> None:
    app = finished(open_app(model=models["gpt2"]))
    app.segmented_control(key="_within").set_value("its layer").run()
    assert shown(app) == pytest.approx(scores(models["gpt2"], "ablation", normalize="layer").array, abs=1e-3)


def test_missing_methods_are_computed_and_compared(open_app: Open, models: dict[str, str]) -> None:
    app = finished(open_app(model=models["gpt2"]))
    app.toggle(key="_agree").set_value(True).run()
    app.button(key="compute_missing").click().run()
    finished(app)
    finished(app)
    assert not app.exception
    rows = app.get("table")[0].value  # type: ignore[attr-defined]
    expected = scores(models["gpt2"], "magnitude"), scores(models["gpt2"], "magnitude-ov")
    from headlens.agreement import compare

    pair = compare("a", expected[0].flat(), "b", expected[1].flat())
    row = rows[rows["methods"] == "Weight magnitude (W_O) · Weight magnitude (W_V W_O)"].iloc[0]
    assert row["Spearman rho [95 %]"] == str(pair.spearman)
    assert row["tops shared"].startswith(f"{pair.shared} of {pair.top}")
    card = pinned(open_app, models["gpt2"], "L0H0")
    assert {"Fisher information", "Output norm", "Confidence"} <= set(table(card))


def test_a_bare_encoder_is_scored_by_drift(open_app: Open, models: dict[str, str]) -> None:
    app = pinned(open_app, models["encoder"], "L0H0")
    assert not app.exception
    assert "Gradient, signed" not in table(app)
    assert any(metric.label == "Drift" for metric in app.metric)
