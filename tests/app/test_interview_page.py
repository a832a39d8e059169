"""The interview page: the main question, a drill of five, leaving and coming back, the mock interview, progress."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from headlens.interview.bank import Bank, load_bank
from headlens.interview.progress import Answer, DiskLog, MockEnd, MockStart, progress_file
from headlens.interview.questions import Choice, ChooseAll, Free, Number, Order, Question
from tests.app.conftest import Open, settle

PAGE = "pages/interview.py"
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


@pytest.fixture(scope="module")
def bank() -> Bank:
    return load_bank()


@pytest.fixture(autouse=True)
def own_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test has a learner of its own."""
    monkeypatch.setenv("HEADLENS_DATA", str(tmp_path / "data"))


def section(app: AppTest, name: str) -> AppTest:
    app.segmented_control(key="_iv_section").set_value(name)
    return app.run()


def texts(app: AppTest) -> str:
    parts = [*app.markdown, *app.caption, *app.success, *app.error, *app.warning, *app.info]
    return " ".join(part.value for part in parts).replace("\\", "")


def asked(app: AppTest, bank: Bank) -> Question:
    """The question that the page shows, found by its text (numbers of the model cut out)."""
    shown = [heading.value.replace("\\", "") for heading in app.subheader]
    for question in bank.questions.values():
        pattern = re.escape(question.ask).replace(r"\{", "{").replace(r"\}", "}")
        pattern = re.sub(r"{\w+}", ".+", pattern)
        if any(re.fullmatch(pattern, text) for text in shown):
            return question
    raise AssertionError(shown)


def option_places(app: AppTest, question: Choice | ChooseAll) -> list[int]:
    """Number of the option that stands at each place."""
    if isinstance(question, Choice):
        labels = next(radio for radio in app.radio if radio.label == "Your answer").options
    else:
        labels = [box.label for box in app.checkbox if box.key and "_tick_" in box.key]
    plain = [label.replace("\\", "").partition("** ")[2] for label in labels]
    return [next(n for n, option in enumerate(question.options) if option.text == text) for text in plain]


def submit(app: AppTest) -> AppTest:
    return next(button for button in app.button if (button.key or "").endswith("_submit")).click().run()


def give(app: AppTest, question: Question, right: bool) -> AppTest:
    """Answers the question that is shown, rightly or wrongly."""
    if isinstance(question, Choice):
        places = option_places(app, question)
        wanted = next(place for place, number in enumerate(places) if (number == question.key) == right)
        next(radio for radio in app.radio if radio.label == "Your answer").set_value(wanted)
    elif isinstance(question, ChooseAll):
        boxes = [box for box in app.checkbox if box.key and "_tick_" in box.key]
        for box, number in zip(boxes, option_places(app, question), strict=True):
            if (number in question.keys) == right:
                box.check()
    elif isinstance(question, Order):
        boxes = [box for box in app.selectbox if "_place_" in (box.key or "")]
        order = list(range(len(question.items))) if right else list(reversed(range(len(question.items))))
        for box, number in zip(boxes, order, strict=True):
            box.set_value(box.options.index(question.items[number].text))
    elif isinstance(question, Number):
        from headlens.interview.quantities import live_or_reference
        from headlens.interview.shape import shape_of
        from headlens.lens import open_model

        model = app.session_state["hl_model"]
        found = live_or_reference(question.quantity, shape_of(open_model(model)), question.options)
        app.text_input(key=_key(app.text_input, "_number")).set_value(
            str(found.value if right else found.value * 7 + 9)
        )
    elif isinstance(question, Free):
        submit(app)
        if right:
            for box in app.checkbox:
                if "_point_" in (box.key or ""):
                    box.check()
    else:
        next(radio for radio in app.radio if radio.label == "Your prediction").set_value(0)
        return settle(submit(app))
    return submit(app)


def _key(widgets: object, part: str) -> str:
    return next(widget.key for widget in widgets if part in (widget.key or ""))  # type: ignore[attr-defined]


def answers() -> list[Answer]:
    return [event for event in DiskLog().events() if isinstance(event, Answer)]


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
        app.text_input(key=_key(app.text_input, "_number")).set_value(typed)
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


def test_progress_may_stay_in_the_tab(open_app: Open, models: dict[str, str], bank: Bank) -> None:
    app = section(open_app(PAGE, model=models["gpt2"]), "Progress")
    app.radio(key="_iv_place").set_value("Only in this tab").run()
    section(app, "The question")
    give(app, bank["main-question"], right=True)
    section(app, "Progress")
    assert next(metric.value for metric in app.metric if metric.label == "Answers") == "1"
    assert not progress_file().exists()
    other = section(open_app(PAGE, model=models["gpt2"]), "Progress")
    assert next(metric.value for metric in other.metric if metric.label == "Answers") == "0"


def test_export_import_and_starting_afresh(open_app: Open, models: dict[str, str]) -> None:
    log = DiskLog()
    log.add(*(Answer(question="sp-mask", score=0, right=False, where="drill") for _ in range(3)))
    app = section(open_app(PAGE, model=models["gpt2"]), "Progress")
    assert "Speed and size" in texts(app)
    from headlens.interview.progress import export

    text = export(log)
    app.checkbox(key="_iv_sure").check().run()
    app.button(key="_iv_clear").click().run()
    assert next(metric.value for metric in app.metric if metric.label == "Answers") == "0"
    app.file_uploader(key="_iv_import_0").set_value(("mine.json", text.encode(), "application/json")).run()
    assert next(metric.value for metric in app.metric if metric.label == "Answers") == "3"
    assert "3 new answers" in texts(app)
    app.file_uploader(key="_iv_import_1").set_value(("mine.json", b"{}", "application/json")).run()
    assert "no export" in texts(app)
    assert len(json.loads(text)["events"]) == 3
    app.button(key="_iv_weak").click().run()
    assert app.segmented_control(key="_iv_section").value == "Drill"
    assert not app.exception


def test_a_log_that_cannot_be_kept_falls_back_to_the_tab(
    open_app: Open, models: dict[str, str], bank: Bank, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "blocked").write_text("a file, not a folder")
    monkeypatch.setenv("HEADLENS_DATA", str(tmp_path / "blocked"))
    app = give(open_app(PAGE, model=models["gpt2"]), bank["main-question"], right=True)
    assert not app.exception
    assert any("progress" in warning.value for warning in app.warning)
    section(app, "Progress")
    assert next(metric.value for metric in app.metric if metric.label == "Answers") == "1"


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
