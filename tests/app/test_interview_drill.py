"""The drill: every kind of question, second chances, follow-ups, leaving and coming back."""

from __future__ import annotations

import threading

import pytest
from streamlit.testing.v1 import AppTest

from headlens.interview.bank import Bank
from headlens.interview.progress import DiskLog
from tests.app.conftest import Open, settle
from tests.app.interview_kit import PAGE, answers, asked, give, key_with, section, submit, texts

pytestmark = pytest.mark.usefixtures("learner")


def test_a_full_drill_of_five_leaving_and_coming_back(open_app: Open, models: dict[str, str], bank: Bank) -> None:
    app = section(open_app(PAGE, model=models["gpt2"]), "Drill")
    assert f"0 due, {len(bank)} new" in texts(app)
    app.button(key="_iv_drill_start").click().run()
    seen = []
    for number in range(5):
        assert not app.exception
        question = asked(app, bank)
        seen.append(question.id)
        if number == 2:  # leave the page in the middle, and come back
            app.query_params.clear()
            app.switch_page("pages/switchboard.py").run()
            app.query_params.clear()
            app.switch_page(PAGE).run()
            assert asked(app, bank) is question
        give(app, question, right=number != 1)
        app.button(key="_iv_next").click().run()
    assert len(set(seen)) == 5
    second = asked(app, bank)  # the wrong one again
    assert second.id == seen[1]
    assert "second chance" in texts(app)
    give(app, second, right=True)
    app.button(key="_iv_next").click().run()
    assert "4 of 5 right at the first go" in texts(app)
    app.button(key="_iv_to_progress").click().run()
    assert app.segmented_control(key="_iv_section").value == "Progress"
    assert next(metric.value for metric in app.metric if metric.label == "Answers") == "6"
    assert next(metric.value for metric in app.metric if metric.label == "Days in a row") == "1"
    again = section(open_app(PAGE, model=models["gpt2"]), "Progress")  # another session, another day
    assert next(metric.value for metric in again.metric if metric.label == "Answers") == "6"


@pytest.mark.parametrize("kind", ["choice", "all", "order", "number", "free", "predict"])
@pytest.mark.parametrize("right", [True, False])
def test_every_kind_can_be_answered(open_app: Open, models: dict[str, str], bank: Bank, kind: str, right: bool) -> None:
    from headlens.ui.interview_drill import KEY, Drill

    question = next(question for question in bank.questions.values() if question.kind == kind)
    app = section(settle(open_app(PAGE, model=models["gpt2"])), "Drill")
    app.session_state[KEY] = Drill("test", [question.id, "sp-mask"], 2)
    app.run()
    assert asked(app, bank) is question
    give(app, question, right=right)
    assert not app.exception
    if kind == "predict":
        assert any("hurts most" in part.value or "Together" in part.value for part in app.markdown)
    elif right:
        assert app.success
        assert answers()[-1].score == 1
    else:
        assert not app.success
        assert not answers()[-1].right
    assert bank[question.id].explain in texts(app)
    assert app.button(key="_iv_next").label == "Next question"


@pytest.mark.parametrize("ablation", ["zero", "mean"])
def test_a_prediction_is_judged_by_evaluate_on_the_live_set(
    open_app: Open, models: dict[str, str], bank: Bank, ablation: str
) -> None:
    from headlens.data.select import live_set
    from headlens.evaluate import evaluate
    from headlens.lens import open_model
    from headlens.metrics import METRICS
    from headlens.ui.interview_drill import KEY, Drill

    app = section(settle(open_app(PAGE, model=models["gpt2"], ablation=ablation)), "Drill")
    app.session_state[KEY] = Drill("test", ["ro-predict"], 1)
    app.run()
    give(app, bank["ro-predict"], right=True)
    table = app.dataframe[0].value
    lens = open_model(models["gpt2"])
    for label, change, sem in table.itertuples(index=False):
        off = lens.topology.parse(label)
        found = evaluate(lens, live_set(lens), off, metric=METRICS["loss"], ablation=ablation).main  # type: ignore[arg-type]
        assert float(change) == pytest.approx(found.delta, abs=1e-4)
        assert float(sem) == pytest.approx(found.delta_sem, abs=1e-4)
    assert len({label.partition("H")[0] for label in table["Off"]}) == 1
    kept = [a.right for a in answers()]
    assert kept in ([], [True], [False])  # a tie between all is not kept
    settle(app)
    assert [a.right for a in answers()] == kept  # marked once


@pytest.mark.parametrize("family", ["llama", "t5", "bert", "encoder"])
def test_numbers_and_predictions_on_every_kind_of_model(
    open_app: Open, models: dict[str, str], bank: Bank, family: str
) -> None:
    from headlens.ui.interview_drill import KEY, Drill

    app = section(settle(open_app(PAGE, model=models[family])), "Drill")
    for name in ("kv-bytes", "sp-head", "ab-pair", "red-predict"):
        app.session_state[KEY] = Drill(f"test {name}", [name], 1)
        app.run()
        assert not app.exception
        give(app, bank[name], right=True)
        assert not app.exception
        assert app.success if name in ("kv-bytes", "sp-head") else app.dataframe
    if family in ("bert", "encoder"):
        app.session_state[KEY] = Drill("again", ["kv-bytes"], 1)
        app.run()
        assert "this one is about GPT-2 small" in texts(app)


def test_a_number_that_is_none_is_asked_again(open_app: Open, models: dict[str, str], bank: Bank) -> None:
    from headlens.ui.interview_drill import KEY, Drill

    app = section(open_app(PAGE, model=models["gpt2"]), "Drill")
    app.session_state[KEY] = Drill("test", ["kv-bytes"], 1)
    app.run()
    for typed in ("", "a lot", "12,5"):
        app.text_input(key=key_with(app.text_input, "_number")).set_value(typed)
        submit(app)
        assert len(app.warning) == 1
        assert answers() == []
    assert bank["kv-bytes"].explain not in texts(app)


def test_a_lucky_guess_can_be_taken_back(open_app: Open, models: dict[str, str], bank: Bank) -> None:
    from headlens.interview.schedule import doubted

    app = give(open_app(PAGE, model=models["gpt2"]), bank["main-question"], right=True)
    next(button for button in app.button if (button.key or "").endswith("_guess")).click().run()
    assert "Noted as a guess" in texts(app)
    assert doubted(DiskLog().events()) == {answers()[0].id}


def test_follow_ups_are_offered_and_asked_at_once(open_app: Open, models: dict[str, str], bank: Bank) -> None:
    from headlens.ui.interview_drill import KEY, Drill

    app = section(open_app(PAGE, model=models["gpt2"]), "Drill")
    app.session_state[KEY] = Drill("test", ["sp-mask", "lr-sum"], 2)
    give(app.run(), bank["sp-mask"], right=True)
    following = bank["sp-mask"].follow_ups[0]
    app.button(key=f"_iv_follow_{following}").click().run()
    assert asked(app, bank).id == following
    give(app, bank[following], right=True)
    app.button(key="_iv_next").click().run()
    assert asked(app, bank).id == "lr-sum"


def other_model(app: AppTest, name: str) -> AppTest:
    """As Back in the browser, or a link, changes it."""
    app.query_params["model"] = name
    return settle(app.run())


def test_an_answer_keeps_its_question_when_the_model_is_changed(
    open_app: Open, models: dict[str, str], bank: Bank
) -> None:
    from headlens.ui.interview_drill import KEY, Drill

    app = section(settle(open_app(PAGE, model=models["gpt2"])), "Drill")
    app.session_state[KEY] = Drill("test", ["sc-passes"], 1)
    app.run()
    give(app, bank["sc-passes"], right=True)
    ask, said = app.subheader[0].value, next(m.value for m in app.markdown if m.value.startswith("You wrote"))
    assert "13 passes" in said  # 3 layers of 4 heads, and the pass with all on
    app = other_model(app, models["llama"])
    assert app.subheader[0].value == ask
    assert said in [markdown.value for markdown in app.markdown]
    assert [answer.model for answer in answers()] == ["small-gpt2"]


def test_another_model_is_predicted_anew_and_an_outcome_stays(
    open_app: Open, models: dict[str, str], bank: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    from headlens.ui import interview_predict
    from headlens.ui.interview_drill import KEY, Drill

    app = section(settle(open_app(PAGE, model=models["gpt2"])), "Drill")
    app.session_state[KEY] = Drill("changed", ["ro-predict"], 1)  # heads that no other test has measured
    app.run()
    go_on = threading.Event()
    work = interview_predict._work
    monkeypatch.setattr(interview_predict, "_work", lambda *args: (go_on.wait(30), work(*args))[1])
    next(radio for radio in app.radio if radio.label == "Your prediction").set_value(0)
    submit(app)  # committed for this model, and not measured yet
    assert "You said" in texts(app)
    app.query_params["model"] = models["llama"]
    app.run()
    assert "You said" not in texts(app)
    assert answers() == []
    go_on.set()
    settle(app)
    give(app, bank["ro-predict"], right=True)
    said, table = texts(app), app.dataframe[0].value
    assert "You said" in said
    kept = len(answers())
    app = other_model(app, models["gpt2"])
    assert app.dataframe[0].value.equals(table)
    assert len(answers()) == kept
