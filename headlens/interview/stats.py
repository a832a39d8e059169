"""How the learner stands: streaks, weak spots, what is known. Everything follows from the log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta, tzinfo

from headlens.interview.bank import Bank
from headlens.interview.progress import Answer, Event
from headlens.interview.schedule import cards, doubted, due, is_known
from headlens.interview.schema import TOPICS, Topic

RECENT = 10
"""A topic is judged by its last so many answers."""
ENOUGH = 3
"""Fewer answers say nothing about a topic."""
WEAK_BELOW = 0.7


@dataclass(frozen=True)
class Streak:
    """Days in a row with an answer, and right answers in a row.

    Attributes:
        days: up to today; yesterday's streak lives until today ends.
        best_days: the longest ever.
        right: right answers in a row, up to the last one.
        today: answers given today.
    """

    days: int
    best_days: int
    right: int
    today: int


@dataclass(frozen=True)
class Standing:
    """One topic.

    Attributes:
        topic: its name.
        questions, seen, known: how many there are, were answered, and will be remembered for three weeks.
        answers, right: the last :data:`RECENT` answers and how many of them were right.
        low, high: 95 % Wilson interval of the share that is right; 0 and 1 without answers.
    """

    topic: Topic
    questions: int
    seen: int
    known: int
    answers: int
    right: int
    low: float
    high: float

    @property
    def weak(self) -> bool:
        """Whether there are enough answers and too few of them right."""
        return self.answers >= ENOUGH and self.right < WEAK_BELOW * self.answers


@dataclass(frozen=True)
class Summary:
    """Where the learner stands in all."""

    answers: int
    right: int
    seen: int
    known: int
    due: int
    streak: Streak
    topics: tuple[Standing, ...]

    @property
    def weak(self) -> list[Topic]:
        """Weak topics, the weakest first."""
        found = [standing for standing in self.topics if standing.weak]
        return [standing.topic for standing in sorted(found, key=lambda s: (s.right / s.answers, s.topic))]


def streak(events: Sequence[Event], now: datetime, zone: tzinfo | None = None) -> Streak:
    """Streaks by calendar days of ``zone`` (None: this computer's)."""
    answers = [event for event in events if isinstance(event, Answer)]
    guesses = doubted(events)
    today = now.astimezone(zone).date()
    # A clock that was wrong for a while may have left days to come.
    days = sorted({day for event in answers if (day := event.at.astimezone(zone).date()) <= today})
    right = 0
    for event in reversed(answers):
        if not event.right or event.id in guesses:
            break
        right += 1
    runs = _runs(days)
    current = next((length for last, length in runs if last in (today, today - timedelta(days=1))), 0)
    given = sum(event.at.astimezone(zone).date() == today for event in answers)
    return Streak(current, max((length for _, length in runs), default=0), right, given)


def _runs(days: Sequence[date]) -> list[tuple[date, int]]:
    """(last day, length) of every run of neighbouring days."""
    found: list[tuple[date, int]] = []
    for day in days:
        if found and day - found[-1][0] == timedelta(days=1):
            found[-1] = (day, found[-1][1] + 1)
        else:
            found.append((day, 1))
    return found


def summary(bank: Bank, events: Sequence[Event], now: datetime, zone: tzinfo | None = None) -> Summary:
    """Everything that the page Progress shows."""
    known = cards(events, bank)
    answers = [event for event in events if isinstance(event, Answer) and event.question in bank]
    guesses = doubted(events)
    right = sum(event.right and event.id not in guesses for event in answers)
    topics = tuple(_standing(bank, topic, answers, guesses, known) for topic in TOPICS)
    return Summary(
        answers=len(answers),
        right=right,
        seen=len(known),
        known=sum(map(is_known, known.values())),
        due=len(due(known, now)),
        streak=streak([e for e in events if not isinstance(e, Answer) or e.question in bank], now, zone),
        topics=topics,
    )


def _standing(bank: Bank, topic: str, answers: Sequence[Answer], guesses: frozenset[str], known: dict) -> Standing:
    of_topic = [question.id for question in bank.questions.values() if question.topic == topic]
    recent = [event for event in answers if event.question in of_topic][-RECENT:]
    right = sum(event.right and event.id not in guesses for event in recent)
    low, high = wilson(right, len(recent))
    seen = [name for name in of_topic if name in known]
    remembered = sum(is_known(known[name]) for name in seen)
    return Standing(topic, len(of_topic), len(seen), remembered, len(recent), right, low, high)  # type: ignore[arg-type]


def wilson(right: int, answers: int) -> tuple[float, float]:
    """95 % Wilson interval of a share; (0, 1) without answers."""
    from scipy.stats import binomtest

    if not answers:
        return 0.0, 1.0
    found = binomtest(right, answers).proportion_ci(0.95, method="wilson")
    return float(found.low), float(found.high)
