"""Progress lines where stderr is no terminal, a bar where it is one."""

from __future__ import annotations

import io
import sys

import pytest

from headlens.cli import progress


class _Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> _Clock:
    fake = _Clock()
    monkeypatch.setattr(progress.time, "monotonic", fake.monotonic)
    return fake


def test_short_work_says_nothing(clock: _Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with progress.computing() as reporter:
        reporter.phase("ablation of x")
        for done in range(10):
            clock.now += 0.4
            reporter(done + 1, 10)
    assert capsys.readouterr() == ("", "")


def test_long_work_says_a_line_now_and_then(clock: _Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with progress.computing() as reporter:
        reporter.phase("ablation of x")
        for done in range(100):
            clock.now += 1.0
            reporter(done + 1, 100)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 20
    assert lines[0] == "ablation of x: 5 % (5 s elapsed, about 1 min 35 s remaining)"
    assert lines[-1] == "ablation of x: 100 % (1 min 40 s elapsed, about 0 s remaining)"


def test_a_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    with progress.computing() as reporter:
        reporter.phase("opening [x]")
        reporter.phase("ablation of [x]")
        reporter(3, 4)
        sys.stdout.write("chatter\n")
        terminal.flush()
    text = terminal.getvalue()
    assert "ablation of [x]" in text
    assert "75%" in text
    assert "elapsed" in text
    assert "remaining" in text
    assert "chatter" in text
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (59.4, "59 s"), (59.6, "1 min 00 s"), (3599, "59 min 59 s"), (7800, "2 h 10 min")],
)
def test_clock(seconds: float, text: str) -> None:
    assert progress.clock(seconds) == text
