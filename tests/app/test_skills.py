"""Skills as bars on the switchboard and along the curve, against the library, on a model of the zoo that has some."""

from __future__ import annotations

import json
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from headlens.ui import prune_skills, skills
from tests.app.conftest import Open
from tests.app.watching import watch

MODEL = "zoo-gpt2-small"


def texts(app: AppTest) -> str:
    found = [*app.markdown, *app.caption, *app.warning]
    return " ".join(element.value for element in found).replace("\\", "")


def chart(app: AppTest, title: str) -> dict[str, Any]:
    """The plotly figure that has an axis of this title."""
    specs = [element.proto.spec for element in app.get("plotly_chart")]  # type: ignore[attr-defined]
    return json.loads(next(spec for spec in specs if title in spec))


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few pairs, so that the test takes seconds."""
    monkeypatch.setattr(skills, "SMALL", 4)
    monkeypatch.setattr(skills, "WHOLE", 16)
    monkeypatch.setattr(prune_skills, "PAIRS", 12)


def test_bars_move_with_the_switches(open_app: Open, few: None) -> None:
    from headlens.lens import open_model
    from headlens.probes import probe

    app = watch(open_app("pages/switchboard.py", model=MODEL))
    assert "Switch heads off to see which skill goes" in texts(app)
    app = watch(open_app("pages/switchboard.py", model=MODEL, off="L0,L1"))
    assert not app.exception
    expected = probe(open_model(MODEL), "L0,L1", limit=16)
    assert expected.of("lost")
    said = texts(app)
    assert "t can no longer" in said
    for each in expected.of("lost"):
        assert each.skill.ability in said
    before, after = (bar for bar in chart(app, "right answers (%)")["data"][::2])
    assert before["name"] == "all heads on"
    assert before["x"] == pytest.approx([100 * each.accuracy_before.value for each in expected.skills])
    assert after["x"] == pytest.approx([100 * each.accuracy.value for each in expected.skills])
    app.button(key="all_on").click().run()
    assert not app.exception
    assert "t can no longer" not in texts(app)


def test_models_without_words_have_no_skills(open_app: Open) -> None:
    app = watch(open_app("pages/switchboard.py", model="zoo-vit", off="L0H1"))
    assert not app.exception
    assert "What it can still do" not in [header.value for header in app.subheader]


def test_skills_along_the_curve(open_app: Open, few: None) -> None:
    app = watch(open_app("pages/prune.py", model=MODEL, method="magnitude"))
    assert "Ask about skills" not in {button.label for button in app.button}
    app.button(key="curve_start").click().run()
    app = watch(app)
    app.button(key="skill_curve_start").click().run()
    app = watch(app)
    assert not app.exception
    lines = [trace for trace in chart(app, "guessing: 50")["data"] if trace["x"][0] == 0]
    assert lines
    assert all(trace["x"][-1] == 100 for trace in lines)
    assert all(trace["y"][0] > 50 for trace in lines)
    assert "guessing gives 50 %" in texts(app)
