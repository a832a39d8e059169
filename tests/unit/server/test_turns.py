"""The line in front of the models: order, places, waits, bounds, giving way."""

from __future__ import annotations

import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headlens.errors import Cancelled, HeadlensError
from headlens.server.turns import BusyError, Ticket, Turns


def served(turns: Turns, tickets: list[tuple[str, Ticket]]) -> list[str]:
    """Names in the order in which they get the one slot, each giving it back at once."""
    order, left = [], list(tickets)
    while left:
        name, ticket = next(pair for pair in left if pair[1].holds)
        order.append(name)
        left.remove((name, ticket))
        ticket.leave()
    return order


def test_sessions_take_turns_whatever_one_of_them_asks() -> None:
    turns = Turns(1, 100)
    wishes = [*[("a", f"a{i}") for i in range(4)], ("b", "b0"), ("c", "c0"), ("b", "b1")]
    tickets = [(name, turns.join(session)) for session, name in wishes]
    assert served(turns, tickets) == ["a0", "b0", "c0", "a1", "b1", "a2", "a3"]


def test_who_has_just_been_served_comes_last() -> None:
    turns = Turns(1, 100)
    first = turns.join("a")
    waiting = [("a", turns.join("a")), ("b", turns.join("b"))]
    first.leave()
    assert served(turns, waiting) == ["b", "a"]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from("abcd"), min_size=1, max_size=20), st.integers(1, 3))
def test_the_place_is_the_number_of_turns_until_then(sessions: list[str], slots: int) -> None:
    turns = Turns(slots, 1000)
    holders = [turns.join(f"holder {i}") for i in range(slots)]
    tickets = [turns.join(session) for session in sessions]
    said = [ticket.place for ticket in tickets]
    assert sorted(said) == list(range(1, len(sessions) + 1))
    for number in range(1, len(sessions) + 1):  # serve one after the other through the first slot
        holders[0].leave()
        mine = said.index(number)
        assert tickets[mine].holds
        assert tickets[mine].place == 0
        holders[0] = tickets[mine]


def test_never_more_at_work_than_slots() -> None:
    turns, at_work, most, lock = Turns(3, 100), 0, 0, threading.Lock()

    def visit(number: int) -> None:
        nonlocal at_work, most
        with turns.turn(f"session {number % 7}"):
            with lock:
                at_work += 1
                most = max(most, at_work)
            time.sleep(0.005)
            with lock:
                at_work -= 1

    threads = [threading.Thread(target=visit, args=(number,)) for number in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert most == 3
    assert (turns.standing().at_work, turns.standing().waiting) == (0, 0)


def test_a_full_line_says_so_and_takes_people_again_later() -> None:
    turns = Turns(1, 4)
    holder = turns.join("holder")
    waiting = [turns.join(f"session {i}") for i in range(4)]
    with pytest.raises(BusyError, match=r"4 computations wait already; try again in about \d+ s"):
        turns.join("late")
    assert issubclass(BusyError, HeadlensError)
    assert turns.refused == 1
    waiting[2].leave()
    turns.join("late")
    holder.leave()


def test_one_session_cannot_fill_the_line() -> None:
    turns = Turns(1, 100)
    turns.join("holder")
    for _ in range(turns.share):
        turns.join("greedy")
    with pytest.raises(BusyError, match="of yours wait already"):
        turns.join("greedy")
    turns.join("modest")


def test_who_gives_up_waiting_leaves_the_line_to_others() -> None:
    turns = Turns(1, 10)
    holder = turns.join("holder")

    def give_up(ticket: Ticket) -> None:
        raise Cancelled

    with pytest.raises(Cancelled), turns.turn("a", give_up):
        raise AssertionError("never reached")
    other = turns.join("b")
    assert other.place == 1
    holder.leave()
    assert other.holds


def test_a_slot_comes_back_when_the_work_fails() -> None:
    turns = Turns(1, 10)
    with pytest.raises(ZeroDivisionError), turns.turn("a"):
        raise ZeroDivisionError
    assert turns.join("b").holds


def test_long_work_gives_way_when_others_wait_and_its_time_is_up() -> None:
    turns = Turns(1, 10, quantum=0.02)
    long, steps, done = turns.join("long"), [], threading.Event()

    def work() -> None:
        while not done.is_set():
            long.step(lambda: None)
            steps.append(time.monotonic())
            time.sleep(0.002)
        long.leave()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        time.sleep(0.05)
        short = turns.join("short")
        assert short.wait(5)
        before = len(steps)
        time.sleep(0.05)
        assert len(steps) <= before + 1  # the step that was under way
        short.leave()
        assert long.wait(5)
        time.sleep(0.05)
        assert len(steps) > before + 1
    finally:
        done.set()
        thread.join(5)


def test_long_work_keeps_its_slot_while_nobody_waits() -> None:
    turns = Turns(1, 10, quantum=0.0)
    ticket = turns.join("long")
    time.sleep(0.01)
    ticket.step(lambda: pytest.fail("it had to wait"))
    assert ticket.holds


def test_work_that_is_cancelled_while_it_stands_aside_gets_no_slot() -> None:
    turns = Turns(1, 10, quantum=0.0)
    long, other = turns.join("long"), turns.join("other")
    time.sleep(0.01)

    def cancelled() -> None:
        raise Cancelled

    with pytest.raises(Cancelled):
        long.step(cancelled)
    long.leave()
    other.leave()
    assert (turns.standing().at_work, turns.standing().waiting) == (0, 0)


def test_the_expected_wait_follows_how_long_slots_were_held(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("headlens.server.turns.time.monotonic", lambda: now[0])
    turns = Turns(2, 100)
    for _ in range(200):
        ticket = turns.join("a")
        now[0] += 3.0
        ticket.leave()
    assert turns.expected(4) == pytest.approx(6.0, rel=0.01)
    assert turns.expected(0) == 0.0
