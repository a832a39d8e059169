"""The mock interview: twenty minutes, question after question as an interviewer asks, and a score sheet at the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType

import numpy as np

from headlens.interview.bank import Bank
from headlens.interview.progress import Answer, Event, MockEnd, MockStart
from headlens.interview.schema import TOPICS

SECONDS = 20 * 60
TIMES: Mapping[str, int] = MappingProxyType(
    {"choice": 60, "all": 90, "order": 90, "number": 120, "predict": 120, "free": 180}
)
"""Seconds that an answer of each kind is planned with."""
BANDS = (
    (0.8, "Ready", "You would carry this interview. Revise what is marked below, then do one more on another day."),
    (0.6, "Nearly there", "The core is right; the follow-ups cost you. Drill the weak topics below, then come back."),
    (0.0, "Not yet", "Read the one-minute answer and the cheat sheet again, drill level 1 and 2, then come back."),
)
"""From which share of the points on each verdict is given."""


@dataclass(frozen=True)
class Row:
    """One line of the score sheet; ``score`` is None where the question was not reached."""

    question: str
    points: float
    score: float | None
    seconds: float | None

    @property
    def earned(self) -> float:
        """Points that count."""
        return self.points * (self.score or 0.0)


@dataclass(frozen=True)
class Sheet:
    """The score sheet of one mock interview.

    Attributes:
        rows: every question in order; a question's points are its level.
        seconds: from the start to the last answer (to the end of the time where it ran out).
        verdict, advice: by :data:`BANDS`.
        topics: (title, earned, possible) of each topic, the worst share first.
    """

    rows: tuple[Row, ...]
    seconds: float
    verdict: str
    advice: str
    topics: tuple[tuple[str, float, float], ...]

    @property
    def earned(self) -> float:
        """Points earned."""
        return sum(row.earned for row in self.rows)

    @property
    def possible(self) -> float:
        """Points that could be earned."""
        return sum(row.points for row in self.rows)

    @property
    def share(self) -> float:
        """Points earned of those possible."""
        return self.earned / self.possible if self.possible else 0.0


def paper(bank: Bank, *, seed: int, seconds: int = SECONDS, measured: bool = True) -> tuple[str, ...]:
    """Draws the questions: the main one and its chain first, then chains of other topics, as long as the time lasts.

    Args:
        bank: all questions.
        seed: draws the chains.
        seconds: planned time; see :data:`TIMES`.
        measured: whether questions may need a measurement on a model.
    """
    rng = np.random.default_rng(seed)
    starts = [name for name in bank.roots if name != bank.main.question and bank[name].kind in TIMES]
    order = [starts[number] for number in rng.permutation(len(starts))]
    found: list[str] = []
    spent = 0

    def take(names: Sequence[str]) -> None:
        nonlocal spent
        for name in names:
            kind = bank[name].kind
            if name in found or (kind == "predict" and not measured) or spent + TIMES[kind] > seconds:
                continue
            found.append(name)
            spent += TIMES[kind]

    take(bank.chain(bank.main.question)[:3])
    used = {bank[name].topic for name in found}
    for kind in ("free", "number"):  # every interview has one of each
        names = [question.id for question in bank.questions.values() if question.kind == kind]
        take([names[int(rng.integers(len(names)))]] if names else [])
    while order:
        start = next((name for name in order if bank[name].topic not in used), order[0])
        order.remove(start)
        used.add(bank[start].topic)
        take(bank.chain(start)[:3])
        if used >= {bank[name].topic for name in order}:
            used.clear()
    return tuple(found)


def open_run(events: Sequence[Event], now: datetime) -> MockStart | None:
    """The mock interview that is going on: the last one begun, if it has neither ended nor run out of time.

    Runs that begin in the future are left out: the clock was set back since.
    """
    ended = {event.run for event in events if isinstance(event, MockEnd)}
    starts = [event for event in events if isinstance(event, MockStart) and left(event, now) <= event.seconds]
    if not starts or starts[-1].id in ended or left(starts[-1], now) <= 0:
        return None
    return starts[-1]


def left(run: MockStart, now: datetime) -> float:
    """Seconds that are left."""
    return run.seconds - (now - run.at).total_seconds()


def answers_of(run: MockStart, events: Sequence[Event]) -> dict[str, Answer]:
    """The answers of a run in time, by question; the first one counts."""
    end = run.at + timedelta(seconds=run.seconds)
    found: dict[str, Answer] = {}
    for event in events:
        if isinstance(event, Answer) and event.run == run.id and event.at <= end:
            found.setdefault(event.question, event)
    return found


def next_question(run: MockStart, events: Sequence[Event], bank: Bank) -> str | None:
    """The first question of the run without an answer; None when all have one."""
    given = answers_of(run, events)
    return next((name for name in run.questions if name in bank and name not in given), None)


def sheet(run: MockStart, events: Sequence[Event], bank: Bank) -> Sheet:
    """The score sheet; what was not answered in time scores nothing."""
    given = answers_of(run, events)
    rows = []
    for name in run.questions:
        if name not in bank:
            continue
        answer = given.get(name)
        score = None if answer is None else answer.score
        rows.append(Row(name, float(bank[name].level), score, None if answer is None else answer.seconds))
    last = max((answer.at for answer in given.values()), default=run.at)
    complete = all(row.score is not None for row in rows)
    ends = [event.at for event in events if isinstance(event, MockEnd) and event.run == run.id]
    stopped = min([*ends, run.at + timedelta(seconds=run.seconds)])
    seconds = ((last if complete else stopped) - run.at).total_seconds()
    earned = sum(row.earned for row in rows)
    possible = sum(row.points for row in rows)
    share = earned / possible if possible else 0.0
    _, verdict, advice = next(band for band in BANDS if share >= band[0])
    return Sheet(tuple(rows), seconds, verdict, advice, _by_topic(rows, bank))


def _by_topic(rows: Sequence[Row], bank: Bank) -> tuple[tuple[str, float, float], ...]:
    found: dict[str, list[float]] = {}
    for row in rows:
        sums = found.setdefault(bank[row.question].topic, [0.0, 0.0])
        sums[0] += row.earned
        sums[1] += row.points
    ordered = sorted(found.items(), key=lambda item: (item[1][0] / item[1][1], item[0]))
    return tuple((TOPICS[topic], earned, possible) for topic, (earned, possible) in ordered)


def finished_runs(events: Sequence[Event], now: datetime) -> list[MockStart]:
    """Mock interviews that have ended, the newest first; none that begins in the future, since the clock was wrong."""
    running = open_run(events, now)
    ended = {event.run for event in events if isinstance(event, MockEnd)}
    starts = [event for event in reversed(events) if isinstance(event, MockStart) and event != running]
    return [event for event in starts if event.id in ended or left(event, now) <= event.seconds]
