"""The log: nothing is lost by two writers, a crash or a merge; nothing bad is let in."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from headlens.errors import DataError, StoreError
from headlens.interview import progress
from headlens.interview.progress import (
    Answer,
    DiskLog,
    Doubt,
    MemoryLog,
    MockEnd,
    MockStart,
    export,
    merge,
    progress_file,
)

START = datetime(2026, 3, 1, 12, tzinfo=UTC)


def answer(question: str = "q-one", right: bool = True, minutes: float = 0, **more: object) -> Answer:
    at = START + timedelta(minutes=minutes)
    return Answer(question=question, score=float(right), right=right, where="drill", at=at, **more)  # type: ignore[arg-type]


@pytest.fixture
def log(tmp_path: Path) -> DiskLog:
    return DiskLog(tmp_path / "deep" / "progress.jsonl")


def test_what_is_added_is_found_again_in_the_order_of_time(log: DiskLog) -> None:
    later, earlier = answer(minutes=5), answer("q-two", minutes=1)
    log.add(later)
    log.add(earlier, Doubt(answer=later.id, at=START + timedelta(minutes=9)))
    run = MockStart(questions=("a", "b"), seconds=1200, at=START)
    log.add(run, MockEnd(run=run.id, at=START + timedelta(minutes=20)))
    fresh = DiskLog(log.path)
    assert fresh.events() == log.events()
    assert [type(event).__name__ for event in fresh.events()] == ["MockStart", "Answer", "Answer", "Doubt", "MockEnd"]
    assert fresh.events()[1] == earlier
    assert fresh.damaged == 0


def test_nothing_is_written_by_looking(log: DiskLog) -> None:
    assert log.events() == ()
    assert not log.path.parent.exists()


def test_two_threads_lose_nothing(log: DiskLog) -> None:
    other = DiskLog(log.path)

    def write(into: DiskLog, number: int) -> None:
        for i in range(50):
            into.add(answer(f"q-{number}-{i}", minutes=i))

    threads = [threading.Thread(target=write, args=(into, n)) for n, into in enumerate((log, other, log))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(log.events()) == 150
    assert log.events() == other.events()


def test_two_programs_lose_nothing(log: DiskLog) -> None:
    program = (
        "import sys; from pathlib import Path; from headlens.interview.progress import Answer, DiskLog\n"
        "log = DiskLog(Path(sys.argv[1]))\n"
        "for i in range(150): log.add(Answer(question=f'q-{sys.argv[2]}-{i}', score=1, right=True, where='drill'))\n"
    )
    running = [subprocess.Popen([sys.executable, "-c", program, str(log.path), str(n)]) for n in range(2)]
    assert [each.wait(60) for each in running] == [0, 0]
    assert len(log.events()) == 300
    assert log.damaged == 0


def test_a_line_written_in_between_is_not_written_over(log: DiskLog, monkeypatch: pytest.MonkeyPatch) -> None:
    log.add(answer("q-first"))
    look = progress._torn

    def look_while_another_program_writes(handle: int) -> bool:
        found = look(handle)
        with log.path.open("ab") as other:
            other.write(answer("q-other", minutes=1).model_dump_json().encode() + b"\n")
        return found

    monkeypatch.setattr(progress, "_torn", look_while_another_program_writes)
    log.add(answer("q-mine", minutes=2))
    assert [event.question for event in log.events()] == ["q-first", "q-other", "q-mine"]  # type: ignore[union-attr]


def test_a_line_that_was_cut_off_costs_only_itself(log: DiskLog) -> None:
    log.add(answer("q-one"), answer("q-two", minutes=1))
    log.path.write_bytes(log.path.read_bytes()[:-20])
    assert [event.question for event in log.events()] == ["q-one"]  # type: ignore[union-attr]
    assert log.damaged == 1
    log.add(answer("q-three", minutes=2))
    assert [event.question for event in log.events()] == ["q-one", "q-three"]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "line",
    [
        b"not json",
        b"[]",
        b'{"type":"answer"}',
        b'{"type":"magic","id":"' + b"a" * 32 + b'"}',
        b"\xff\xfe",
        b"{" * 5000,
        b'"' + b"x" * 30_000 + b'"',
    ],
)
def test_bad_lines_are_counted_and_left_out(log: DiskLog, line: bytes) -> None:
    log.add(answer())
    with log.path.open("ab") as file:
        file.write(line + b"\n")
    assert len(log.events()) == 1
    assert log.damaged == 1


@pytest.mark.parametrize(
    "change",
    [
        {"score": 2},
        {"score": float("nan")},
        {"question": "Not An Id"},
        {"seconds": -1},
        {"where": "bed"},
        {"id": "x"},
        {"at": "9999-12-31T23:59:59Z"},
        {"at": "0001-01-01T00:00:00Z"},
    ],
)
def test_values_out_of_range_are_refused(change: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"validation error"):
        Answer.model_validate({**json.loads(answer().model_dump_json()), **change})


def test_export_and_import_give_the_same_log(log: DiskLog, tmp_path: Path) -> None:
    log.add(answer("q-one"), answer("q-two", minutes=1, seconds=12.5, model="smollm2-135m"))
    other = DiskLog(tmp_path / "other.jsonl")
    assert merge(other, export(log).encode()) == (2, 0)
    assert other.events() == log.events()
    assert merge(other, export(log).encode()) == (0, 0)
    assert len(other.events()) == 2


def test_merging_two_computers_keeps_both(log: DiskLog) -> None:
    memory = MemoryLog()
    memory.add(answer("q-there", minutes=3))
    log.add(answer("q-here", minutes=1))
    merge(log, export(memory).encode())
    merge(memory, export(log).encode())
    assert log.events() == memory.events()
    assert [event.question for event in log.events()] == ["q-here", "q-there"]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b'{"headlens": "other", "schema": 1, "events": []}',
        b'{"headlens": "interview progress", "schema": 1, "events": {}}',
        b"\x00\xff",
        b"[" * 100_000,
    ],
)
def test_what_is_no_export_is_refused_in_one_line(log: DiskLog, text: bytes) -> None:
    with pytest.raises(DataError) as caught:
        merge(log, text)
    assert "\n" not in str(caught.value)
    assert log.events() == ()


def test_an_export_of_another_form_or_size_is_refused(log: DiskLog, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DataError, match="has the form 9"):
        merge(log, b'{"headlens": "interview progress", "schema": 9, "events": []}')
    monkeypatch.setattr("headlens.interview.progress.MAX_IMPORT", 10)
    with pytest.raises(DataError, match="larger than"):
        merge(log, b"x" * 11)


def test_damaged_rows_of_an_export_are_left_out(log: DiskLog) -> None:
    good = json.loads(answer().model_dump_json())
    rows = [good, {"type": "answer"}, 7, None, {**good, "id": "b" * 32, "score": -1}, {**good, "id": "c" * 32}]
    text = json.dumps({"headlens": "interview progress", "schema": 1, "events": rows})
    assert merge(log, text.encode()) == (2, 3 + 1)


def test_starting_afresh_keeps_the_old_log_beside(log: DiskLog) -> None:
    assert log.clear() is None
    log.add(answer())
    kept = log.clear()
    assert kept is not None
    assert log.events() == ()
    assert len(DiskLog(kept).events()) == 1
    log.add(answer("q-new"))
    assert len(log.events()) == 1


def test_a_place_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    log = DiskLog(tmp_path / "file" / "progress.jsonl")
    with pytest.raises(StoreError, match=r"progress cannot be kept.*HEADLENS_DATA") as caught:
        log.add(answer())
    assert "\n" not in str(caught.value)


def test_a_place_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "progress.jsonl").mkdir()
    with pytest.raises(StoreError, match="cannot be read"):
        DiskLog(tmp_path / "progress.jsonl").events()


def test_a_huge_file_is_not_read_but_answers_are_still_kept(log: DiskLog, monkeypatch: pytest.MonkeyPatch) -> None:
    log.add(answer())
    monkeypatch.setattr("headlens.interview.progress.MAX_FILE", log.path.stat().st_size)
    assert len(log.events()) == 1
    log.add(answer())
    with pytest.raises(StoreError, match="too large for progress"):
        log.events()
    monkeypatch.undo()
    assert len(log.events()) == 2


def test_where_it_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HEADLENS_DATA", str(tmp_path / "mine"))
    assert progress_file() == tmp_path / "mine" / "interview" / "progress.jsonl"
    monkeypatch.setenv("HEADLENS_DATA", "~/there")
    assert progress_file() == Path("~/there").expanduser() / "interview" / "progress.jsonl"
    monkeypatch.delenv("HEADLENS_DATA")
    assert progress_file().is_absolute()
    assert "headlens" in str(progress_file())
    monkeypatch.setenv("HEADLENS_DATA", "~nobody-here-of-that-name/x")
    with pytest.raises(StoreError, match="HEADLENS_DATA"):
        progress_file()


def test_other_time_zones_are_the_same_moment(log: DiskLog) -> None:
    there = answer().model_copy(update={"at": START.astimezone(timezone(timedelta(hours=9)))})
    log.add(there)
    assert log.events()[0].at == START
