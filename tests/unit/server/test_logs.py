"""Structured logs: JSON lines that a program can read, and never a user's text."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from headlens.errors import StoreError
from headlens.server import logs
from headlens.ui.jobs import Jobs
from tests.unit.ui.test_jobs import wait_for

SECRET = "Mary's diagnosis"


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    path = tmp_path / "logs" / "server.jsonl"
    monkeypatch.setenv(logs.VARIABLE, str(path))
    return path


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_an_event_is_one_json_line_with_known_fields_only(log: Path) -> None:
    logs.event("job", kind="scores", seconds=1.23456789, prompt=SECRET, title=SECRET, status="done\nforged: line")
    (found,) = lines(log)
    assert {name: found[name] for name in ("event", "kind", "seconds")} == {
        "event": "job",
        "kind": "scores",
        "seconds": 1.2346,
    }
    assert set(found) == {"at_utc", "event", "kind", "seconds"}


def test_a_job_that_fails_over_a_users_text_does_not_log_it(log: Path) -> None:
    def bug(_: object) -> None:
        raise ValueError(SECRET)

    job = Jobs().start(("continuation", SECRET), SECRET, bug, SECRET)
    wait_for(lambda: not job.running and log.exists() and bool(log.read_text()))
    assert SECRET not in log.read_text()
    found = next(line for line in lines(log) if line["event"] == "job")
    assert (found["kind"], found["status"], found["error"]) == ("continuation", "failed", "ValueError")
    assert any(place.startswith("test_logs.py:") for place in found["at"])


def test_warnings_of_libraries_lose_their_words(log: Path) -> None:
    logger = logging.getLogger("headlens")
    before = list(logger.handlers)
    try:
        logs.start()
        logs.start()
        logging.getLogger("headlens.ui").warning("cannot read %s", SECRET)
    finally:
        logger.handlers[:] = before
        logging.getLogger("streamlit").handlers[:] = [
            handler for handler in logging.getLogger("streamlit").handlers if not isinstance(handler, logs._Records)
        ]
    (found,) = lines(log)
    assert (found["logger"], found["level"]) == ("headlens.ui", "WARNING")
    assert SECRET not in log.read_text()


def test_paths_and_hub_ids_are_called_other() -> None:
    assert logs.model_word("zoo-gpt2") == "zoo-gpt2"
    assert logs.model_word("/home/mary/model") == "other"
    assert logs.model_word("mary/private") == "other"


def test_without_the_variable_nothing_is_written(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(logs.VARIABLE, raising=False)
    logs.event("job", kind="scores")
    assert capsys.readouterr() == ("", "")


def test_a_place_that_cannot_be_written_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(logs.VARIABLE, str(tmp_path))
    with pytest.raises(StoreError, match=r"HEADLENS_LOG=.*cannot be written"):
        logs.start()
