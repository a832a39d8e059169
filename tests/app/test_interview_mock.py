"""The mock interview, and two sessions at once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from headlens.interview.bank import Bank
from headlens.interview.progress import DiskLog, MockEnd, MockStart
from tests.app.conftest import Open, settle
from tests.app.interview_kit import PAGE, answers, asked, give, section, texts

pytestmark = pytest.mark.usefixtures("learner")


def test_a_mock_interview_from_start_to_sheet(open_app: Open, models: dict[str, str], bank: Bank) -> None:
    app = section(settle(open_app(PAGE, model=models["gpt2"])), "Mock interview")
    app.button(key="_iv_mock_start").click().run()
    run = next(event for event in DiskLog().events() if isinstance(event, MockStart))
    assert asked(app, bank).id == run.questions[0] == "main-question"
    assert any(metric.label == "Time left" for metric in app.metric)
    for name in run.questions[:-1]:
        question = asked(app, bank)
        assert question.id == name
        give(app, question, right=True)
        assert not app.exception
        assert question.explain not in texts(app)  # no explanations until the end
    app.button(key=f"_iv_mock_skip_{len(run.questions) - 1}").click().run()
    assert app.subheader[0].value.startswith("Score sheet")
    points = next(metric for metric in app.metric if metric.label == "Points")
    possible = sum(bank[name].level for name in run.questions)
    assert points.value.endswith(f"of {possible}")
    assert "Weakest topics" in texts(app)
    assert any(isinstance(event, MockEnd) for event in DiskLog().events())
    app.button(key="_iv_mock_leave").click().run()
    assert "Earlier interviews" in [heading.value for heading in app.subheader]


def test_a_mock_interview_ends_when_its_time_is_over(open_app: Open, models: dict[str, str], bank: Bank) -> None:
    begun = datetime.now(UTC) - timedelta(minutes=21)
    run = MockStart(questions=("sp-mask", "sp-half"), seconds=1200, at=begun)
    DiskLog().add(run)
    app = open_app(PAGE, model=models["gpt2"])
    app.session_state["hl_iv_mock"] = run.id
    section(app, "Mock interview")
    assert app.subheader[0].value == "Score sheet: Not yet"
    assert next(metric.value for metric in app.metric if metric.label == "Answered") == "0 of 2"


def test_another_tab_may_go_on_with_an_interview_but_is_not_put_into_it(
    open_app: Open, models: dict[str, str], bank: Bank
) -> None:
    DiskLog().add(MockStart(questions=("sp-mask", "sp-half"), seconds=1200, at=datetime.now(UTC)))
    app = section(open_app(PAGE, model=models["gpt2"]), "Mock interview")
    assert "is going on" in texts(app)
    app.button(key="_iv_mock_resume").click().run()
    assert asked(app, bank).id == "sp-mask"


def test_two_sessions_answer_at_once_and_both_are_kept(open_app: Open, models: dict[str, str], bank: Bank) -> None:
    first, second = (open_app(PAGE, model=models["gpt2"]) for _ in range(2))
    give(first, bank["main-question"], right=True)
    assert asked(second, bank).id == "main-question"  # not answered there
    assert second.run().radio
    give(second, bank["main-question"], right=False)
    assert first.run().success
    assert sorted(a.right for a in answers()) == [False, True]
