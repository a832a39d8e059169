"""Background jobs: one computation for all who ask, progress, cancelling, failing, being forgotten."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from headlens.errors import Cancelled, HeadlensError
from headlens.server.turns import Turns
from headlens.ui import job as module
from headlens.ui.jobs import Job, Jobs


def wait_for(condition: Callable[[], bool], seconds: float = 10) -> None:
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.005)
    assert condition()


def steps(job: Job) -> str:
    """Work that goes on until it is stopped."""
    for done in range(100_000):
        job.progress(done, 100_000)
        time.sleep(0.005)
    return "all"


def test_ten_who_ask_share_one_computation() -> None:
    calls, go = [], threading.Event()

    def work(job: Job) -> int:
        calls.append(job)
        go.wait(10)
        return 7

    shared = Jobs()
    found = [shared.start("key", "title", work, f"viewer {i}") for i in range(10)]
    go.set()
    wait_for(lambda: not found[0].running)
    assert len({id(job) for job in found}) == 1
    assert (len(calls), found[0].status, found[0].result) == (1, "done", 7)
    assert shared.start("key", "title", work, "late") is found[0]
    assert len(calls) == 1


def test_the_work_stops_when_the_last_viewer_leaves() -> None:
    shared = Jobs()
    job = shared.start("key", "title", steps, "a")
    job.look("b")
    job.leave("a")
    time.sleep(0.05)
    assert job.running
    job.leave("b")
    wait_for(lambda: not job.running)
    assert job.status == "cancelled"


def test_a_cancelled_job_starts_anew() -> None:
    shared = Jobs()
    job = shared.start("key", "title", steps, "a")
    job.leave("a")
    again = shared.start("key", "title", lambda job: "new", "a")
    assert again is not job
    wait_for(lambda: not again.running)
    assert again.result == "new"


def test_the_work_stops_when_nobody_looks_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "UNWATCHED_SECONDS", 0.1)
    job = Jobs().start("key", "title", steps, "a")
    wait_for(lambda: not job.running)
    assert job.status == "cancelled"


def test_a_mistake_is_told_in_its_own_line_and_a_bug_is_not_shown() -> None:
    def mistake(job: Job) -> None:
        raise HeadlensError("give more text")

    def bug(job: Job) -> None:
        raise ZeroDivisionError("secret detail")

    for work, said in ((mistake, "give more text"), (bug, "the server's log says what")):
        job = Jobs().start("key", "title", work, "a")
        wait_for(lambda job=job: not job.running)
        assert job.status == "failed"
        assert said in job.error
        assert "secret" not in job.error


def test_time_left_does_not_count_what_came_from_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    job = Job("key", "title")
    job.look("a")
    assert job.seconds_left is None
    job.progress(60, 100)  # taken from the store in no time
    assert job.seconds_left is None
    now[0] += 5
    job.look("a")
    job.progress(70, 100)
    assert job.seconds_left == pytest.approx(15)
    assert job.fraction == pytest.approx(0.7)


def test_results_of_other_work_are_kept_but_do_not_disturb_a_job() -> None:
    shared = Jobs()
    assert shared.put("key", "title", 3).result == 3
    assert shared.start("key", "title", lambda job: 4, "a").result == 3
    running = shared.start("other", "title", steps, "a")
    assert shared.put("other", "title", 5) is running
    running.leave("a")
    wait_for(lambda: not running.running)


def test_the_oldest_ended_jobs_are_forgotten_and_running_ones_kept() -> None:
    shared = Jobs(keep=3)
    running = shared.start("running", "title", steps, "a")
    for number in range(6):
        shared.put(number, "title", number)
    assert shared.get("running") is running
    assert [number for number in range(6) if shared.get(number) is not None] == [4, 5]
    running.leave("a")
    wait_for(lambda: not running.running)


def test_progress_raises_once_cancelled() -> None:
    job = Job("key", "title")
    job.look("a")
    job.progress(1, 2)
    job.leave("a")
    with pytest.raises(Cancelled):
        job.progress(2, 2)


def test_jobs_stand_aside_while_somebody_waits() -> None:
    jobs, steps = Jobs(), []

    def work(job: Job) -> None:
        for number in range(400):
            job.progress(number, 400)
            steps.append(number)
            time.sleep(0.005)

    job = jobs.start("long", "long", work, "me")
    with jobs.ahead():
        time.sleep(0.05)  # the step that was under way ends
        before = len(steps)
        with jobs.ahead():
            time.sleep(0.1)
        time.sleep(0.1)  # the inner one has gone, the outer still waits
        assert len(steps) == before
    time.sleep(0.2)
    assert len(steps) > before
    job.leave("me")


def test_jobs_wait_for_their_turn_and_say_their_place() -> None:
    turns = Turns(1, 10)
    shared, go = Jobs(turns=turns), threading.Event()
    first = shared.start("first", "title", lambda job: go.wait(10), "a")
    wait_for(lambda: turns.standing().at_work == 1)
    second = shared.start("second", "title", lambda job: "done", "b")
    wait_for(lambda: second.place == 1)
    assert second.running
    assert second.wait_seconds > 0
    go.set()
    wait_for(lambda: not second.running)
    assert (first.status, second.status, second.place) == ("done", "done", 0)


def test_a_job_that_is_cancelled_in_the_line_leaves_it() -> None:
    turns, go = Turns(1, 10), threading.Event()
    shared = Jobs(turns=turns)
    shared.start("first", "title", lambda job: go.wait(10), "a")
    wait_for(lambda: turns.standing().at_work == 1)
    second = shared.start("second", "title", lambda job: pytest.fail("it ran"), "b")
    wait_for(lambda: second.place == 1)
    second.leave("b")
    wait_for(lambda: not second.running)
    assert (second.status, turns.standing().waiting) == ("cancelled", 0)
    go.set()


def test_a_full_line_is_told_and_can_be_asked_again() -> None:
    turns, go = Turns(1, 4), threading.Event()
    shared = Jobs(turns=turns)
    for number in range(5):
        shared.start(number, "title", lambda job: go.wait(10), f"viewer {number}")
    wait_for(lambda: turns.standing().waiting == 4)
    late = shared.start("late", "title", lambda job: "done", "late")
    wait_for(lambda: not late.running)
    assert (late.status, late.refused) == ("failed", True)
    assert "busy" in late.error
    go.set()
    wait_for(lambda: turns.standing().waiting == 0)
    again = shared.start("late", "title", lambda job: "done", "late")
    wait_for(lambda: not again.running)
    assert again.result == "done"


def test_who_cancels_stops_waiting_and_others_go_on() -> None:
    shared, go = Jobs(), threading.Event()
    job = shared.start("key", "title", lambda job: go.wait(10), "a", implied=True)
    assert shared.start("key", "title", lambda job: None, "b", implied=True) is job
    job.leave("a")
    job.look("a")  # a poll that was under way
    assert shared.start("key", "title", lambda job: None, "a", implied=True) is job
    assert job.running
    assert job.has_left("a")
    assert job.watchers == 1
    job.rejoin("a")
    assert (job.has_left("a"), job.watchers) == (False, 2)
    go.set()


def test_drawing_the_page_again_does_not_start_what_was_cancelled() -> None:
    shared = Jobs()
    job = shared.start("key", "title", steps, "a", implied=True)
    job.leave("a")
    wait_for(lambda: not job.running)
    assert shared.start("key", "title", steps, "a", implied=True) is job
    again = shared.start("key", "title", lambda job: "new", "a")  # a click
    wait_for(lambda: not again.running)
    assert again.result == "new"


def test_waiting_for_a_lock_keeps_nobody_from_their_turn() -> None:
    shared, lock = Jobs(turns=Turns(1, 10)), threading.Lock()
    lock.acquire()

    def train(job: Job) -> str:
        with job.holding(lock):
            return "trained"

    waiting = shared.start("train", "title", train, "a")
    other = shared.start("other", "title", lambda job: "done", "b")
    wait_for(lambda: not other.running)
    assert waiting.running
    lock.release()
    wait_for(lambda: not waiting.running)
    assert (waiting.result, lock.locked()) == ("trained", False)


def test_a_lock_is_given_back_when_the_wait_is_cancelled() -> None:
    shared, lock, go = Jobs(turns=Turns(1, 10)), threading.Lock(), threading.Event()

    def train(job: Job) -> None:
        with job.holding(lock):
            pytest.fail("it trained")

    lock.acquire()
    waiting = shared.start("train", "title", train, "a")
    wait_for(lambda: shared._turns is not None and shared._turns.standing().at_work == 0)
    blocking = shared.start("block", "title", lambda job: go.wait(10), "b")
    wait_for(lambda: shared._turns is not None and shared._turns.standing().at_work == 1)
    lock.release()
    wait_for(lambda: waiting.place == 1)  # it has the lock, and lines up again
    waiting.leave("a")
    wait_for(lambda: not waiting.running)
    assert (waiting.status, lock.locked()) == ("cancelled", False)
    go.set()
    wait_for(lambda: not blocking.running)
