"""Pages ask less often the more sessions there are."""

from __future__ import annotations

import pytest

from headlens.server import visits as module
from headlens.server.visits import Visits


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    clock = [1_000.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(module.os, "cpu_count", lambda: 2)
    return clock


@pytest.mark.usefixtures("now")
@pytest.mark.parametrize(("sessions", "pause"), [(0, 0.5), (1, 0.5), (4, 0.5), (8, 1.0), (40, 5.0), (500, 10.0)])
def test_the_pause_grows_with_the_crowd(sessions: int, pause: float) -> None:
    visits = Visits()
    for number in range(sessions):
        visits.seen(f"session {number}")
        visits.seen(f"session {number}")
    assert visits.pause(0.5) == pytest.approx(pause)


def test_who_has_left_does_not_count(now: list[float]) -> None:
    visits = Visits()
    for number in range(3_000):
        visits.seen(f"session {number}")
    assert visits.present == 3_000
    now[0] += module.PRESENT_SECONDS + 1
    visits.seen("late")
    assert visits.present == 1
    assert len(visits._seen) == 1


def test_jobs_outlive_the_longest_pause() -> None:
    from headlens.ui.job import UNWATCHED_SECONDS

    assert UNWATCHED_SECONDS >= 3 * module.MOST_SECONDS
