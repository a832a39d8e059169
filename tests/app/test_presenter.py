"""Presenter mode: five steps on every page, without opening a model, and back to where one was."""

from __future__ import annotations

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from headlens.errors import DataError
from headlens.interview.story import load_story
from headlens.ui import presenter
from tests.app.conftest import Open, settle

PAGES = ("app.py", "pages/attention.py", "pages/switchboard.py", "pages/interview.py")


def titles(app: AppTest) -> list[str]:
    return [title.value.replace("\\", "") for title in app.title]


@pytest.mark.parametrize("page", PAGES)
def test_every_page_presents_by_its_link(open_app: Open, models: dict[str, str], page: str) -> None:
    story = load_story()
    app = open_app(page, model=models["gpt2"], present="2")
    assert not app.exception
    assert titles(app) == [story.steps[1].title]
    assert app.query_params["present"] in ("2", ["2"])
    assert app.query_params["model"] in (models["gpt2"], [models["gpt2"]])


def test_five_steps_forward_and_back_and_out_again(open_app: Open, models: dict[str, str]) -> None:
    story = load_story()
    app = settle(open_app("pages/interview.py", model=models["gpt2"]))
    app.button(key="present").click().run()
    for number, told in enumerate(story.steps, 1):
        assert titles(app) == [told.title]
        shown = " ".join(text.value for text in app.markdown).replace("\\", "")
        assert all(line in shown for line in told.lines)
        assert app.get("plotly_chart")
        assert app.button(key="_present_back").disabled is (number == 1)
        assert app.button(key="_present_next").disabled is (number == 5)
        if number < 5:
            app.button(key="_present_next").click().run()
    app.button(key="_present_back").click().run()
    assert titles(app) == [story.steps[3].title]
    app.button(key="_present_leave").click().run()
    assert titles(app) == ["The interview answer"]
    assert "present" not in app.query_params


def test_nothing_is_opened_or_computed(open_app: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a model was opened")

    monkeypatch.setattr("headlens.ui.cache.open_lens", refuse)
    app = open_app(model="no-such-model-anywhere", present="1")
    assert not app.exception
    assert not app.error


def test_notes_are_hidden_until_asked_for(open_app: Open, models: dict[str, str]) -> None:
    note = load_story().steps[0].notes[0]
    app = open_app(model=models["gpt2"], present="1")
    assert note not in " ".join(text.value for text in app.markdown).replace("\\", "")
    app.toggle(key="_present_notes").set_value(True).run()
    assert note in " ".join(text.value for text in app.markdown).replace("\\", "")
    app.button(key="_present_next").click().run()
    assert load_story().steps[1].notes[0] in " ".join(text.value for text in app.markdown).replace("\\", "")


@pytest.mark.parametrize("value", ["0", "6", "x", "<b>"])
def test_a_step_that_does_not_exist_is_dropped(open_app: Open, models: dict[str, str], value: str) -> None:
    app = open_app(model=models["gpt2"], present=value)
    assert titles(app) == ["Which heads matter?"]
    assert any("dropped" in warning.value for warning in app.warning)


def test_without_the_numbers_it_says_how_to_make_them(
    open_app: Open, models: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    presenter._story.clear()
    monkeypatch.setattr("headlens.interview.story.interview_dir", lambda: tmp_path)
    app = open_app(model=models["gpt2"], present="1")
    assert "benchmarks/story.py" in app.error[0].value.replace("\\", "")
    with pytest.raises(DataError):
        load_story()
    app.button(key="_present_leave").click().run()
    assert titles(app) == ["Which heads matter?"]
