"""Where progress is kept: on disk, in the tab, exported, imported, started afresh."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headlens.interview.bank import Bank
from headlens.interview.progress import Answer, DiskLog, progress_file
from tests.app.conftest import Open
from tests.app.interview_kit import PAGE, give, section, texts

pytestmark = pytest.mark.usefixtures("learner")


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
