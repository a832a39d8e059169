"""Whether the ranking holds elsewhere, for the chosen model, on the page Families."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from scipy.stats import spearmanr
from streamlit.testing.v1 import AppTest

from headlens.ui import families_work, replicate
from tests.app.conftest import Open
from tests.app.watching import watch

PAGE = "pages/families.py"
MODEL = "zoo-gpt2-small"


@pytest.fixture(autouse=True)
def no_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The models side by side are another test's."""
    monkeypatch.setattr(families_work, "names", lambda: ())


def squares(app: AppTest, number: int = 0) -> dict[str, Any]:
    charts = [json.loads(each.proto.spec) for each in app.get("plotly_chart")]  # type: ignore[attr-defined]
    return charts[number]["data"][0]


def compared(app: AppTest, kind: str) -> AppTest:
    app.segmented_control(key="_replicate_kind").set_value(kind).run()
    app.button(key="replicate_start").click().run()
    app = watch(app)
    assert not app.exception
    assert not app.error
    return app


def test_both_halves_of_a_zoo_model_and_its_curves(open_app: Open) -> None:
    app = compared(open_app(PAGE, model=MODEL), "texts")
    rankings = []
    for half in ("score", "held-out"):
        rankings.append(gradient(half))
    wanted = float(spearmanr(*rankings).statistic)  # type: ignore[attr-defined]
    assert not app.get("plotly_chart")  # a single number needs no picture
    (table,) = [each.value for each in app.table]
    assert table["rankings"].tolist() == ["small-english (score) · small-english (held-out)"]
    assert table["Spearman rho [95 %]"].tolist()[0].startswith(f"{wanted:.2f} [")
    app = compared(app, "curves")
    costs = squares(app)
    halves = ["small-english (score)", "small-english (held-out)"]
    assert (costs["x"], costs["y"]) == (halves, [*halves, "random"])
    assert any("With 50 " in line.value for line in app.markdown)


def gradient(half: Any) -> np.ndarray:
    """The method's scores on as much of a half as the page takes, one example at a time."""
    from headlens.claims.examples import tokens_for
    from headlens.data.encode import encode
    from headlens.data.select import load_data
    from headlens.importance import METHODS, Request
    from headlens.importance.score import score
    from headlens.lens import open_model
    from headlens.metrics import METRICS

    lens = open_model(MODEL)
    data = load_data("small-english", task=lens.task, split=half)
    room, count = tokens_for(lens), 0
    for example in data.examples:
        room -= len(lens.tokenizer(example.text)["input_ids"])  # type: ignore[misc]
        count += room >= 0
    encoded = encode(lens, load_data("small-english", task=lens.task, split=half, limit=count))
    return score(lens, METHODS["gradient"], Request(METRICS["loss"], encoded, batch_size=1)).flat()


def test_skills_are_compared_where_the_model_has_any(
    open_app: Open, models: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replicate, "PAIRS", 8)
    app = compared(open_app(PAGE, model=MODEL), "skills")
    names = squares(app)["x"]
    assert len(names) > 2
    assert all(name.startswith("story-") for name in names)
    bare = open_app(PAGE, model=models["encoder"])
    assert bare.segmented_control(key="_replicate_kind").options == ["Texts", "Pruning curves"]


def test_what_cannot_be_compared_is_told_in_one_line(open_app: Open, models: dict[str, str]) -> None:
    """A model of random weights is no better than guessing, so there is no ranking."""
    app = open_app(PAGE, model=models["gpt2"])
    app.segmented_control(key="_replicate_kind").set_value("texts").run()
    app.button(key="replicate_start").click().run()
    app = watch(app)
    assert not app.exception
    assert any("at least two rankings with a signal are needed" in each.value.replace("\\", "") for each in app.warning)
