"""What comes next: answered questions return when they are about to be forgotten (FSRS), new ones fill the rest.

The scheduler's state is not stored: it follows from the log, answer by answer, so logs of two places can be merged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta

import numpy as np
from fsrs import Card, Rating, Scheduler

from headlens.interview.bank import Bank
from headlens.interview.progress import Answer, Doubt, Event
from headlens.interview.schema import Topic

SCHEDULER = Scheduler(learning_steps=(timedelta(minutes=10),), enable_fuzzing=False)
"""FSRS 6 with its published parameters and 90 % expected recall. Wrong answers come back after ten minutes; what was
right at once is not asked again on the same day."""
KNOWN_DAYS = 21.0
"""A question is called known when FSRS expects it to be remembered with 90 % for so long."""


def doubted(events: Iterable[Event]) -> frozenset[str]:
    """Ids of answers that were guessed."""
    return frozenset(event.answer for event in events if isinstance(event, Doubt))


def rating(answer: Answer, *, guessed: bool = False) -> Rating:
    """Right is Good, half right is Hard, wrong or guessed is Again."""
    if guessed or (not answer.right and answer.score < 0.5):
        return Rating.Again
    return Rating.Good if answer.right else Rating.Hard


def cards(events: Sequence[Event], known: Bank | None = None) -> dict[str, Card]:
    """The scheduler's card of every answered question, by replaying the log.

    Args:
        events: the log, the oldest first.
        known: leaves out questions that this bank no longer has.
    """
    guesses = doubted(events)
    found: dict[str, Card] = {}
    for event in events:
        if not isinstance(event, Answer) or (known is not None and event.question not in known):
            continue
        card = found.get(event.question) or Card(card_id=len(found), due=event.at.astimezone(UTC))
        at = event.at.astimezone(UTC)
        found[event.question], _ = SCHEDULER.review_card(card, rating(event, guessed=event.id in guesses), at)
    return found


def due(found: Mapping[str, Card], now: datetime) -> list[str]:
    """Questions to be asked again, the longest overdue first."""
    return sorted((name for name in found if found[name].due <= now), key=lambda name: (found[name].due, name))


def is_known(card: Card) -> bool:
    """Whether the question will be remembered for :data:`KNOWN_DAYS`."""
    return (card.stability or 0.0) >= KNOWN_DAYS


def choose(
    bank: Bank,
    events: Sequence[Event],
    *,
    count: int,
    now: datetime,
    seed: int,
    topics: Iterable[Topic] = (),
    levels: Iterable[int] = (),
    weak: Sequence[str] = (),
    skip: Iterable[str] = (),
) -> list[str]:
    """Questions for a drill: those that are due, then new ones, then those that are nearest to being forgotten.

    Args:
        bank: all questions.
        events: the log.
        count: how many; fewer come where the filters leave fewer.
        now: with a time zone.
        seed: mixes new questions of equal rank.
        topics, levels: filters; empty means all.
        weak: topics to prefer among new questions, the weakest first.
        skip: ids that are left out.
    """
    wanted_topics, wanted_levels, left_out = set(topics), set(levels), set(skip)
    fits = [
        question.id
        for question in bank.questions.values()
        if (not wanted_topics or question.topic in wanted_topics)
        and (not wanted_levels or question.level in wanted_levels)
        and question.id not in left_out
    ]
    found = {name: card for name, card in cards(events, bank).items() if name in set(fits)}
    first = due(found, now)
    rng = np.random.default_rng(seed)
    draw = dict(zip(fits, rng.permutation(len(fits)).tolist(), strict=True))
    roots = set(bank.roots)
    rank = {topic: number for number, topic in enumerate(weak)}
    new = sorted(
        (name for name in fits if name not in found),
        key=lambda name: (bank[name].level, rank.get(bank[name].topic, len(rank)), name not in roots, draw[name]),
    )
    later = sorted(
        (n for n in found if n not in first), key=lambda n: (SCHEDULER.get_card_retrievability(found[n], now), n)
    )
    return [*first, *_spread(bank, new), *later][:count]


def _spread(bank: Bank, names: Sequence[str]) -> list[str]:
    """The same names, level by level, so that neighbours are about different topics where possible."""
    left, found = list(names), []
    while left:
        level = bank[left[0]].level
        last = bank[found[-1]].topic if found else None
        pick = next((n for n in left if bank[n].level == level and bank[n].topic != last), left[0])
        left.remove(pick)
        found.append(pick)
    return found
