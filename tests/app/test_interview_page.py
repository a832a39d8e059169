"""The interview page: the main question, texts, the cheat sheet, and what it is without a model."""

from __future__ import annotations

import re
import shlex

import pytest
from streamlit.testing.v1 import AppTest

from headlens.interview.bank import Bank
from headlens.interview.questions import Choice
from tests.app.conftest import ROOT, Open, settle
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


@pytest.mark.parametrize("family", ["gpt2", "encoder"])
def test_the_command_of_the_example_names_a_model_that_it_can_score(
    open_app: Open, models: dict[str, str], family: str
) -> None:
    """As it is written there, with the folder of a model of one's own; a bare encoder has no gradient score."""
    app = settle(open_app(PAGE, model=models[family]))
    app.pills(key="_iv_part").set_value("Worked example")
    command = next(code.value for code in app.run().code if code.language == "bash")
    program, model = shlex.split(command)[1:]
    assert (ROOT / program).is_file()
    assert model == (models["gpt2"] if family == "gpt2" else "zoo-gpt2")


def test_the_minute_is_said_and_checked_against_its_points(open_app: Open, models: dict[str, str], bank: Bank) -> None:
    app = settle(open_app(PAGE, model=models["gpt2"]))
    app.pills(key="_iv_part").set_value("One minute").run()
    app.button(key="_iv_minute_try").click().run()
    assert app.segmented_control(key="_iv_section").value == "Drill"
    question = asked(app, bank)
    assert (question.kind, question.id) == ("free", "red-one-minute")
    give(app, question, right=True)
    assert app.success
    app.button(key="_iv_next").click().run()
    assert asked(app, bank).id in bank["main-question"].follow_ups
