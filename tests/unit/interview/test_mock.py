"""The mock interview: what is asked, and the score sheet by hand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from headlens.interview.bank import load_bank
from headlens.interview.mock import (
    SECONDS,
    TIMES,
    answers_of,
    finished_runs,
    left,
    next_question,
    open_run,
    paper,
    sheet,
)
from headlens.interview.progress import Answer, Event, MockEnd, MockStart

BANK = load_bank()
START = datetime(2026, 3, 1, 12, tzinfo=UTC)
RUN = MockStart(questions=("sp-mask", "sp-half", "kv-free"), seconds=SECONDS, at=START)


def answer(question: str, score: float, minutes: float, run: str = RUN.id) -> Answer:
    at = START + timedelta(minutes=minutes)
    return Answer(question=question, score=score, right=score == 1, where="mock", run=run, seconds=30, at=at)


@pytest.mark.parametrize("seed", range(20))
def test_a_paper_fills_the_time_and_not_more(seed: int) -> None:
    found = paper(BANK, seed=seed)
    planned = sum(TIMES[BANK[name].kind] for name in found)
    assert SECONDS - 60 <= planned <= SECONDS
    assert len(set(found)) == len(found)
    assert found[:3] == BANK.chain("main-question")[:3]
    assert {"free", "number"} <= {BANK[name].kind for name in found}
    assert len({BANK[name].topic for name in found}) >= 4
    assert paper(BANK, seed=seed) == found


def test_papers_differ_and_may_do_without_measurements() -> None:
    assert len({paper(BANK, seed=seed) for seed in range(10)}) == 10
    for seed in range(10):
        assert "predict" not in {BANK[name].kind for name in paper(BANK, seed=seed, measured=False)}


def test_follow_ups_stand_behind_what_they_follow() -> None:
    for seed in range(10):
        found = paper(BANK, seed=seed)
        pairs = [(a, b) for a in found for b in BANK[a].follow_ups[:1] if b in found]
        assert pairs
        assert sum(found.index(a) + 1 == found.index(b) for a, b in pairs) >= len(pairs) / 2


def test_the_clock() -> None:
    assert left(RUN, START + timedelta(minutes=5)) == 15 * 60
    assert open_run([RUN], START + timedelta(minutes=19)) == RUN
    assert open_run([RUN], START + timedelta(minutes=20)) is None
    assert open_run([RUN, MockEnd(run=RUN.id, at=START)], START) is None
    later = MockStart(questions=("sp-mask",), seconds=SECONDS, at=START + timedelta(minutes=1))
    assert open_run([RUN, later], START + timedelta(minutes=2)) == later
    assert open_run([], START) is None


def test_a_clock_that_was_set_back_hides_no_new_interview() -> None:
    later = MockStart(questions=("sp-mask",), seconds=1200, at=START + timedelta(hours=5))
    left_open = MockStart(questions=("sp-mask",), seconds=1200, at=START + timedelta(hours=6))
    new = MockStart(questions=("sp-mask",), seconds=1200, at=START)
    events: list[Event] = [new, later, MockEnd(run=later.id, at=later.at), left_open]
    assert open_run(events, START + timedelta(minutes=1)) == new
    assert open_run(events[1:], START) is None


def test_questions_come_in_order() -> None:
    events: list[Event] = [RUN]
    assert next_question(RUN, events, BANK) == "sp-mask"
    events += [answer("sp-mask", 1, 1), answer("sp-half", 0, 2, run="another")]
    assert next_question(RUN, events, BANK) == "sp-half"
    events += [answer("sp-half", 0, 2), answer("kv-free", 1, 3)]
    assert next_question(RUN, events, BANK) is None


def test_the_score_sheet() -> None:
    events: list[Event] = [RUN, answer("sp-mask", 1, 1), answer("sp-half", 0, 3), answer("kv-free", 0.5, 6)]
    found = sheet(RUN, events, BANK)
    assert [row.points for row in found.rows] == [1, 2, 3]
    assert [row.earned for row in found.rows] == [1, 0, 1.5]
    assert (found.earned, found.possible) == (2.5, 6)
    assert found.share == pytest.approx(2.5 / 6)
    assert found.verdict == "Not yet"
    assert found.seconds == 6 * 60
    assert found.topics == (("Speed and size", 1.0, 3.0), ("Key/value cache arithmetic", 1.5, 3.0))


@pytest.mark.parametrize(
    ("scores", "verdict"), [((1, 1, 1), "Ready"), ((0, 1, 0.6), "Nearly there"), ((0, 0, 1), "Not yet")]
)
def test_bands(scores: tuple[float, ...], verdict: str) -> None:
    events = [RUN, *(answer(name, score, 1) for name, score in zip(RUN.questions, scores, strict=True))]
    assert sheet(RUN, events, BANK).verdict == verdict


def test_late_answers_and_second_ones_do_not_count() -> None:
    events: list[Event] = [RUN, answer("sp-mask", 0, 1), answer("sp-mask", 1, 2), answer("sp-half", 1, 21)]
    assert {name: found.score for name, found in answers_of(RUN, events).items()} == {"sp-mask": 0}
    found = sheet(RUN, events, BANK)
    assert [row.score for row in found.rows] == [0, None, None]
    assert found.seconds == SECONDS


def test_an_interview_that_was_ended_took_so_long() -> None:
    events: list[Event] = [RUN, answer("sp-mask", 1, 1), MockEnd(run=RUN.id, at=START + timedelta(minutes=4))]
    assert sheet(RUN, events, BANK).seconds == 4 * 60


def test_questions_that_are_gone_from_the_bank_are_left_out() -> None:
    run = MockStart(questions=("sp-mask", "gone-question"), seconds=SECONDS, at=START)
    assert [row.question for row in sheet(run, [run], BANK).rows] == ["sp-mask"]


def test_earlier_interviews() -> None:
    second = MockStart(questions=("sp-mask",), seconds=SECONDS, at=START + timedelta(hours=2))
    assert finished_runs([RUN, second], START + timedelta(hours=2)) == [RUN]
    assert finished_runs([RUN, second], START + timedelta(hours=9)) == [second, RUN]
    assert finished_runs([RUN, second], START - timedelta(days=1)) == []  # the clock was set back
    assert finished_runs([RUN, MockEnd(run=RUN.id, at=START)], START - timedelta(days=1)) == [RUN]
