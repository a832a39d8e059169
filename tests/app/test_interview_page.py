"""The interview page: the main question, texts, the cheat sheet, and what it is without a model."""

from __future__ import annotations

import re

import pytest
from streamlit.testing.v1 import AppTest

from headlens.interview.bank import Bank
from headlens.interview.questions import Choice
from tests.app.conftest import Open
from tests.app.interview_kit import PAGE, answers, asked, give, section, submit, texts

PARTS = (
    "The words first",
    "Two sentences",
    "One minute",
    "Long version",
    "When it stops working",
    "Senior view",
    "Worked example",
    "Key concepts",
    "Products and research",
    "Red flags",
)

pytestmark = pytest.mark.usefixtures("learner")


def test_the_main_question_is_explained_after_answering(open_app: Open, models: dict[str, str], bank: Bank) -> None:
    app = open_app(PAGE, model=models["gpt2"])
    assert not app.exception
    question = bank["main-question"]
    assert isinstance(question, Choice)
    assert asked(app, bank) is question
    for option in question.options:
        assert option.why not in texts(app)
    assert app.pills(key="_iv_part").value == "The words first"
    give(app, question, right=True)
    assert app.success[0].value == "Right."
    for option in question.options:
        assert option.why in texts(app)
    assert question.explain in texts(app)
    assert "Michel, Levy and Neubig 2019" in texts(app)
    assert [(a.question, a.right, a.where) for a in answers()] == [("main-question", True, "question")]
    assert app.pills(key="_iv_part").value == "Two sentences"
    for part in PARTS:
        app.pills(key="_iv_part").set_value(part).run()
        assert not app.exception
        assert part in [heading.value for heading in app.subheader]


def test_a_wrong_answer_is_told_so_and_may_be_tried_again(open_app: Open, models: dict[str, str], bank: Bank) -> None:
    app = open_app(PAGE, model=models["gpt2"])
    submit(app)
    assert [warning.value for warning in app.warning] == ["Choose an answer first\\."]
    give(app, bank["main-question"], right=False)
    assert app.error[0].value == "Not right."
    assert "✗ wrong, your answer" in texts(app)
    before = option_places_of_feedback(app)
    app.button(key="_iv_again").click().run()
    give(app, bank["main-question"], right=True)
    assert [a.right for a in answers()] == [False, True]
    assert before


def option_places_of_feedback(app: AppTest) -> list[str]:
    return re.findall(r"- \*\*([A-H])\*\*", " ".join(part.value for part in app.markdown))


def test_the_page_works_without_a_model(open_app: Open, bank: Bank) -> None:
    app = open_app(PAGE, model="no-such-model-anywhere")
    assert not app.exception
    assert len(app.error) == 1
    give(app, bank["main-question"], right=True)
    for name in ("Drill", "Mock interview", "Progress", "Cheat sheet"):
        section(app, name)
        assert not app.exception


def test_the_cheat_sheet_has_the_models_numbers(open_app: Open, models: dict[str, str]) -> None:
    app = section(open_app(PAGE, model=models["llama"]), "Cheat sheet")
    assert not app.exception
    assert app.get("download_button")
    assert "The answer" in [heading.value for heading in app.subheader]


def test_headings_go_down_step_by_step(open_app: Open, models: dict[str, str]) -> None:
    app = open_app(PAGE, model=models["gpt2"])
    assert [title.value for title in app.title] == ["The interview answer"]
    for name in ("The question", "Drill", "Mock interview", "Progress", "Cheat sheet"):
        section(app, name)
        assert len(app.header) == 1
        assert app.header[0].value in (name, "The question")


def test_nothing_of_the_page_is_in_the_url(open_app: Open, models: dict[str, str], bank: Bank) -> None:
    app = give(open_app(PAGE, model=models["gpt2"]), bank["main-question"], right=True)
    section(app, "Drill")
    assert set(app.query_params) <= {"model", "method", "data", "ablation", "unit", "off"}
