"""What comes next: against FSRS used by itself, and by hand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise

import pytest
from fsrs import Card, Rating, Scheduler, State

from headlens.interview.bank import load_bank
from headlens.interview.progress import Answer, Doubt
from headlens.interview.schedule import cards, choose, doubted, due, is_known, rating

BANK = load_bank()
START = datetime(2026, 3, 1, 12, tzinfo=UTC)
NAMES = list(BANK.questions)


def answer(question: str, right: bool = True, *, days: float = 0, score: float | None = None) -> Answer:
    value = float(right) if score is None else score
    return Answer(question=question, score=value, right=right, where="drill", at=START + timedelta(days=days))


def test_cards_are_those_of_the_scheduler_used_directly() -> None:
    events = [
        answer("sp-mask", right, days=d) for right, d in ((True, 0), (True, 0.02), (False, 3), (True, 3.1), (True, 9))
    ]
    scheduler, card = (
        Scheduler(learning_steps=(timedelta(minutes=10),), enable_fuzzing=False),
        Card(card_id=1, due=START),
    )
    for event in events:
        card, _ = scheduler.review_card(card, Rating.Good if event.right else Rating.Again, event.at)
    found = cards(events)["sp-mask"]
    assert (found.due, found.stability, found.difficulty, found.state) == (
        card.due,
        card.stability,
        card.difficulty,
        card.state,
    )


def test_wrong_answers_come_back_soon_and_right_ones_late() -> None:
    right = [answer("sp-mask", True, days=d) for d in (0, 0.01, 3)]
    found = cards([*right, answer("sp-half", False, days=3)])
    assert found["sp-half"].due - (START + timedelta(days=3)) <= timedelta(minutes=10)
    assert found["sp-mask"].due - (START + timedelta(days=3)) > timedelta(days=5)


def test_what_was_right_at_once_is_not_asked_again_on_that_day() -> None:
    assert cards([answer("sp-mask", True)])["sp-mask"].due >= START + timedelta(days=1)
    assert cards([answer("sp-mask", False)])["sp-mask"].due == START + timedelta(minutes=10)


def test_marks_become_ratings() -> None:
    assert rating(answer("q", True)) == Rating.Good
    assert rating(answer("q", True), guessed=True) == Rating.Again
    assert rating(answer("q", False)) == Rating.Again
    assert rating(answer("q", False, score=0.4)) == Rating.Again
    assert rating(answer("q", False, score=0.6)) == Rating.Hard


def test_a_doubted_answer_counts_as_not_known() -> None:
    lucky = answer("sp-mask")
    doubt = Doubt(answer=lucky.id, at=START + timedelta(minutes=1))
    assert doubted([lucky, doubt]) == {lucky.id}
    assert cards([lucky, doubt])["sp-mask"].due == cards([answer("sp-mask", False)])["sp-mask"].due


def test_answers_of_another_time_zone_and_of_lost_questions() -> None:
    there = answer("sp-mask").model_copy(update={"at": START.astimezone(timezone(timedelta(hours=-7)))})
    assert cards([there])["sp-mask"].due == cards([answer("sp-mask")])["sp-mask"].due
    assert set(cards([answer("sp-mask"), answer("gone-long-ago")], BANK)) == {"sp-mask"}


def test_due_ones_first_the_longest_overdue_first() -> None:
    events = [answer("sp-half", False, days=1), answer("sp-mask", False), answer("kv-formula", True, days=1.9)]
    now = START + timedelta(days=2)
    assert due(cards(events), now)[:2] == ["sp-mask", "sp-half"]
    found = choose(BANK, events, count=5, now=now, seed=0)
    assert found[:2] == ["sp-mask", "sp-half"]
    assert len(set(found)) == 5


def test_new_ones_begin_with_basics_and_the_heads_of_chains_on_changing_topics() -> None:
    found = choose(BANK, [], count=8, now=START, seed=0)
    assert {BANK[name].level for name in found} == {1}
    topics = [BANK[name].topic for name in found]
    assert all(first != second for first, second in pairwise(topics))
    assert choose(BANK, [], count=8, now=START, seed=0) == found
    assert choose(BANK, [], count=8, now=START, seed=1) != found
    assert set(choose(BANK, [], count=1000, now=START, seed=0)) == set(NAMES)


def test_weak_topics_come_first_among_the_new() -> None:
    found = choose(BANK, [], count=2, now=START, seed=0, weak=["cache", "speed"])
    assert BANK[found[0]].topic == "cache"


def test_filters_hold_for_all() -> None:
    events = [answer("sp-mask", False), answer("kv-formula", False)]
    now = START + timedelta(days=2)
    found = choose(BANK, events, count=50, now=now, seed=0, topics=["speed"], levels=[1, 2])
    assert {BANK[name].topic for name in found} == {"speed"}
    assert {BANK[name].level for name in found} == {1, 2}
    assert "sp-mask" in found
    assert choose(
        BANK, [], count=5, now=START, seed=0, topics=["speed"], skip=[n for n in NAMES if n != "sp-mask"]
    ) == ["sp-mask"]
    assert choose(BANK, [], count=5, now=START, seed=0, topics=["speed"], skip=NAMES) == []


def test_when_nothing_is_due_or_new_the_nearest_to_being_forgotten_come() -> None:
    events = [answer(name, days=number * 0.1) for number, name in enumerate(NAMES)]
    events += [answer(name, days=20 + number * 0.001) for number, name in enumerate(NAMES)]
    now = START + timedelta(days=20.5)
    found = choose(BANK, events, count=4, now=now, seed=0)
    assert len(found) == 4


def test_known_is_three_weeks() -> None:
    card = Card(card_id=1, state=State.Review, stability=20.9, due=START)
    assert not is_known(card)
    card.stability = 21.0
    assert is_known(card)
    assert not is_known(Card(card_id=1, due=START))


@pytest.mark.parametrize("count", [0, 1, 5])
def test_counts(count: int) -> None:
    assert len(choose(BANK, [], count=count, now=START, seed=0)) == count
