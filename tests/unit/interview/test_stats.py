"""Streaks and weak spots, by hand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from headlens.interview.bank import load_bank
from headlens.interview.progress import Answer, Doubt, Event, MockStart
from headlens.interview.stats import streak, summary, wilson

BANK = load_bank()
NOON = datetime(2026, 3, 10, 12, tzinfo=UTC)


def answer(days: float, right: bool = True, question: str = "sp-mask") -> Answer:
    return Answer(question=question, score=float(right), right=right, where="drill", at=NOON + timedelta(days=days))


def test_days_in_a_row() -> None:
    events = [answer(d) for d in (-9, -8, -7, -6, -2, -1, -1, 0)]
    found = streak(events, NOON, UTC)
    assert (found.days, found.best_days, found.today) == (3, 4, 1)


def test_yesterdays_streak_lives_until_today_ends() -> None:
    events = [answer(-2), answer(-1)]
    assert streak(events, NOON, UTC).days == 2
    assert streak(events, NOON + timedelta(hours=11), UTC).days == 2
    assert streak(events, NOON + timedelta(hours=13), UTC).days == 0
    assert streak([], NOON, UTC).days == 0


def test_days_are_those_of_the_clock_on_the_wall() -> None:
    late = [answer(-1).model_copy(update={"at": datetime(2026, 3, 9, 23, 30, tzinfo=UTC)})]
    east = timezone(timedelta(hours=2))
    assert streak(late, NOON, UTC).today == 0
    assert streak(late, NOON, east).today == 1


def test_days_that_a_wrong_clock_put_into_the_future_break_no_streak() -> None:
    found = streak([answer(-1), answer(0), answer(1), answer(400)], NOON, UTC)
    assert (found.days, found.best_days, found.today) == (2, 2, 1)


def test_right_in_a_row_ends_at_a_wrong_or_a_guess() -> None:
    events: list[Event] = [answer(-0.5, False), answer(-0.4), answer(-0.3), answer(-0.2)]
    assert streak(events, NOON, UTC).right == 3
    guess = events[2]
    assert streak([*events, Doubt(answer=guess.id, at=NOON)], NOON, UTC).right == 1


def test_the_summary_adds_up() -> None:
    events: list[Event] = [
        answer(-1, True, "sp-mask"),
        answer(-0.9, False, "sp-half"),
        answer(-0.8, False, "sp-flash"),
        answer(-0.7, True, "kv-formula"),
        answer(-0.6, True, "not-in-this-bank"),
        MockStart(questions=("sp-mask",), seconds=1200, at=NOON),
    ]
    found = summary(BANK, events, NOON, UTC)
    assert (found.answers, found.right, found.seen) == (4, 2, 4)
    assert found.due >= 2
    speed = next(standing for standing in found.topics if standing.topic == "speed")
    assert (speed.seen, speed.answers, speed.right) == (3, 3, 1)
    assert speed.weak
    assert found.weak == ["speed"]
    assert sum(standing.questions for standing in found.topics) == len(BANK)


def test_two_answers_say_nothing_yet() -> None:
    found = summary(BANK, [answer(-1, False), answer(-0.9, False)], NOON, UTC)
    assert found.weak == []


def test_old_mistakes_are_forgiven() -> None:
    events = [answer(-20 + i, False) for i in range(5)] + [answer(-12 + i, True) for i in range(10)]
    speed = next(standing for standing in summary(BANK, events, NOON, UTC).topics if standing.topic == "speed")
    assert (speed.answers, speed.right, speed.weak) == (10, 10, False)


def test_wilson() -> None:
    low, high = wilson(8, 10)
    z = 1.959963984540054
    centre = (0.8 + z**2 / 20) / (1 + z**2 / 10)
    half = z / (1 + z**2 / 10) * (0.8 * 0.2 / 10 + z**2 / 400) ** 0.5
    assert (low, high) == pytest.approx((centre - half, centre + half))
    assert wilson(0, 0) == (0.0, 1.0)


def test_a_question_that_left_the_bank_counts_nowhere() -> None:
    found = summary(BANK, [answer(0), answer(0, question="gone-since")], NOON, UTC)
    assert (found.answers, found.streak.today, found.streak.right) == (1, 1, 1)
