"""The lab's page at a small size: runs, verdicts that follow the data, cancelling, bad input."""

from __future__ import annotations

import time

import psutil
import pytest
from streamlit.testing.v1 import AppTest

from headlens.lab.questions import CONTROLS
from headlens.lab.results import RunResult
from headlens.lab.shipped import Shipped
from headlens.ui import job as background_jobs
from headlens.ui import lab_experiment, lab_initial, lab_language, lab_training
from headlens.ui.lab_page import SECTIONS
from tests.app.conftest import Open
from tests.unit.lab.invented import Loss, always, never, results, stuck_with_few, study

PAGE = "pages/lab.py"


def watch(app: AppTest, seconds: float = 270) -> AppTest:
    """Runs the page as a browser that polls, until the work has ended."""
    from headlens.ui.cache import jobs

    end = time.monotonic() + seconds
    while jobs().running() and time.monotonic() < end:
        time.sleep(0.5)
        app.run()
    return app.run()


def small(app: AppTest, steps: int = 30) -> AppTest:
    """A study of a few seconds."""
    app.multiselect(key="_lab_heads").set_value([2, 4])
    app.number_input(key="_lab_small").set_value(2)
    app.number_input(key="_lab_seeds").set_value(2)
    app.number_input(key="_lab_steps").set_value(steps)
    app.text_input(key="_lab_distances").set_value("1, 2")
    return app.run()


def texts(app: AppTest) -> str:
    return "\n".join(element.value for element in (*app.markdown, *app.caption))


def workers() -> list[psutil.Process]:
    return [child for child in psutil.Process().children() if _is_worker(child)]


def _is_worker(child: psutil.Process) -> bool:
    try:
        return "headlens.lab.worker" in child.cmdline()
    except psutil.NoSuchProcess:  # it has ended (a zombie is one of those)
        return False


def test_a_small_study_runs_and_says_what_it_found(open_app: Open, models: dict[str, str]) -> None:
    app = small(open_app(PAGE, model=models["gpt2"]))
    assert "4 runs" in texts(app)
    app.button(key="lab_run").click().run()
    assert len(app.get("progress")) == 1
    assert app.button(key="cancel_lab")
    watch(app)
    assert not app.exception
    assert not app.error
    said = texts(app)
    assert "4 heads pruned to 2, no retraining: 0 of 2 runs" in said
    assert "not decided with this few seeds (2)" in said
    assert any("Missed" in caption.value or "No distance is missed" in caption.value for caption in app.caption)
    assert {"own_csv", "own_points"} <= {button.key for button in app.get("download_button")}  # type: ignore[attr-defined]
    table = next(frame.value for frame in app.dataframe if "Successes" in frame.value)
    assert list(table["Runs"]) == [2, 2, 2, 2]
    app.selectbox(key="_lab_run_own").select_index(3).run()
    assert not app.exception
    assert not workers()


def test_cancelling_and_closing_the_page_end_the_processes(
    open_app: Open, models: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    app = small(open_app(PAGE, model=models["gpt2"]), steps=20_000)
    app.button(key="lab_run").click().run()
    _until(lambda: bool(workers()))
    app.button(key="cancel_lab").click().run()
    _until(lambda: not workers())
    watch(app)
    assert "Stopped." in texts(app)
    app.button(key="lab_run").click().run()
    _until(lambda: bool(workers()))
    monkeypatch.setattr(background_jobs, "UNWATCHED_SECONDS", 0.5)  # the page is closed: nobody polls any more
    _until(lambda: not workers())


def _until(reached: object, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not reached():  # type: ignore[operator]
        assert time.monotonic() < end
        time.sleep(0.1)


@pytest.mark.parametrize(
    ("ranks", "said"),
    [
        ((2, 4), "No: in all 2 models with random weights no head"),
        ((2, 3), "In 1 of 2 models with random weights some heads are linearly dependent"),
    ],
)
def test_the_stored_answer_follows_its_rows(ranks: tuple[int, int], said: str) -> None:
    rows = [
        {"shape": shape, "heads": heads, "rank": rank, "when": when, "mean_cka": cka}
        for (shape, heads), rank, before in zip((("llama", 2), ("qwen3", 4)), ranks, (0.9, 0.5), strict=True)
        for when, cka in (("initial", before), ("trained", before - 0.25))
    ]
    sentence = lab_initial.lab_sentence(rows)
    assert sentence.startswith(said)
    assert sentence.endswith("llama: 0.90 to 0.65; qwen3: 0.50 to 0.25.")


@pytest.mark.parametrize(
    ("loss", "pruned", "says"),
    [
        (stuck_with_few, always, "easier to keep 4 heads of 8 than to learn with 4"),
        (always, never, "easier to learn with 4 heads than to keep 4 of 8"),
        (never, never, "not decided with this few seeds (12)"),
    ],
)
def test_shipped_runs_are_read_anew_each_time(
    open_app: Open, monkeypatch: pytest.MonkeyPatch, models: dict[str, str], loss: Loss, pruned: Loss, says: str
) -> None:
    runs = _shipped(loss, pruned)
    monkeypatch.setattr(lab_experiment, "shipped_runs", lambda: runs)
    app = open_app(PAGE, model=models["gpt2"])
    assert not app.exception
    assert says in texts(app)
    assert "`make it`" in texts(app)
    assert "Equal parameters" not in texts(app)  # the form's captions come with a choice
    assert "MLP of 171" in texts(app)


def _shipped(loss: Loss, pruned: Loss) -> Shipped:
    s = study(12, controls=(CONTROLS["equal-parameters"],))
    runs: tuple[RunResult, ...] = tuple(results(s, loss, pruned).values())
    return Shipped(runs, "make it", "2026-01-02", {"torch": "2"})


@pytest.mark.parametrize("section", SECTIONS)
def test_every_section_opens_with_and_without_data(
    open_app: Open, models: dict[str, str], section: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = open_app(PAGE, model=models["gpt2"])
    app.segmented_control(key="_lab_section").set_value(section).run()
    assert not app.exception
    assert not app.error
    for module in (lab_experiment, lab_training):
        monkeypatch.setattr(module, "shipped_runs", lambda: None)
    monkeypatch.setattr(lab_language, "shipped_table", lambda _name: None)
    app.run()
    assert not app.exception
    assert not app.error


def test_what_has_not_been_run_is_said_with_its_command(
    open_app: Open, models: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lab_language, "shipped_table", lambda _name: None)
    app = open_app(PAGE, model=models["gpt2"])
    for section in ("Language model", "Sharing"):
        app.segmented_control(key="_lab_section").set_value(section).run()
        assert any("make lab-language" in info.value for info in app.info)


def test_heads_are_compared_before_and_after_training(open_app: Open, models: dict[str, str]) -> None:
    app = open_app(PAGE, model=models["gpt2"])
    app.segmented_control(key="_lab_section").set_value("At initialisation").run()
    app.button(key="lab_compare").click().run()
    watch(app)
    assert not app.exception
    assert "no head is a linear combination of the others" in texts(app)


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("_lab_distances", "1, 99", "distance 99 is not in the sequence"),
        ("_lab_distances", "", "is not a list of whole numbers"),
        ("_lab_distances", "<b>1</b>", "is not a list of whole numbers"),
        ("_lab_distances", "3,3", "named twice"),
    ],
)
def test_bad_input_is_one_line_and_nothing_can_be_run(
    open_app: Open, models: dict[str, str], key: str, value: str, says: str
) -> None:
    app = open_app(PAGE, model=models["gpt2"])
    app.text_input(key=key).set_value(value).run()
    assert not app.exception
    assert len(app.error) == 1
    assert says.replace(",", "") in app.error[0].value.replace("\\", "").replace(",", "")
    assert "lab_run" not in [button.key for button in app.button]


def test_controls_without_larger_heads_and_no_heads_are_said(open_app: Open, models: dict[str, str]) -> None:
    app = open_app(PAGE, model=models["gpt2"])
    app.multiselect(key="_lab_heads").set_value([]).run()
    assert "there is no number of heads" in app.error[0].value
    app.multiselect(key="_lab_heads").set_value([2, 4]).run()
    app.button_group(key="_lab_controls").set_value(["longer"]).run()
    assert "controls compare 4 heads with more" in app.error[0].value


def test_hours_of_work_have_to_be_confirmed_and_one_seed_is_warned_about(
    open_app: Open, models: dict[str, str]
) -> None:
    app = open_app(PAGE, model=models["gpt2"])
    app.number_input(key="_lab_steps").set_value(100_000).run()
    assert "hours" in texts(app)
    assert app.button(key="lab_run").disabled
    app.checkbox(key="_lab_long").check().run()
    assert not app.button(key="lab_run").disabled


def test_the_page_works_without_a_model(open_app: Open) -> None:
    app = open_app(PAGE, model="no-such-model-anywhere")
    assert not app.exception
    assert len(app.error) == 1
    assert app.button(key="lab_run")
    app.segmented_control(key="_lab_section").set_value("At initialisation").run()
    assert any("Choose a model" in info.value for info in app.info)


def test_choices_outlive_other_pages(open_app: Open, models: dict[str, str]) -> None:
    app = small(open_app(PAGE, model=models["gpt2"]))
    app.switch_page("pages/attention.py").run()
    app.switch_page(PAGE).run()
    assert app.number_input(key="_lab_steps").value == 30
    assert app.multiselect(key="_lab_heads").value == [2, 4]
    assert app.text_input(key="_lab_distances").value == "1, 2"


def test_both_shapes_stand_beside_each_other(open_app: Open, models: dict[str, str]) -> None:
    """The shipped runs: whatever they say, each shape says it for itself."""
    app = open_app(PAGE, model=models["gpt2"])
    shapes = [
        element.value for element in app.markdown if "-shaped" in element.value and " of 12 runs" in element.value
    ]
    for shape in ("Llama-shaped", "Qwen3-shaped"):
        sentences = lab_experiment.main_sentences(shape.split("-")[0].lower())
        assert sentences
        assert all(any(shape in said and sentence in said for said in shapes) for sentence in sentences)
