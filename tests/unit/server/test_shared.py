"""Shared results: one computation for many, the next one takes over, bytes."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch

from headlens.errors import Cancelled
from headlens.server.shared import MISSING, Shared, size_of


def ask_together(shared: Shared, count: int, work: Any, **how: Any) -> list[Any]:
    found: list[Any] = [None] * count

    def one(number: int) -> None:
        try:
            found[number] = shared.compute("key", lambda: work(number), **how)
        except BaseException as error:  # noqa: BLE001 - handed on
            found[number] = error

    threads = [threading.Thread(target=one, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    return found


def test_many_who_ask_at_once_share_one_computation() -> None:
    calls, shared = [], Shared(10_000)

    def work(number: int) -> str:
        calls.append(number)
        time.sleep(0.1)
        return "answer"

    assert ask_together(shared, 20, work) == ["answer"] * 20
    assert (len(calls), shared.computed) == (1, 1)
    assert shared.compute("key", lambda: pytest.fail("computed again")) == "answer"


def test_the_next_one_takes_over_when_the_first_gives_up() -> None:
    lock, first = threading.Lock(), []

    def work(number: int) -> str:
        with lock:
            giving_up = not first
            first.append(number)
        time.sleep(0.05)
        if giving_up:
            raise Cancelled
        return "answer"

    found = ask_together(Shared(10_000), 6, work)
    assert sum(isinstance(each, Cancelled) for each in found) == 1
    assert [each for each in found if each != "answer"] == [each for each in found if isinstance(each, Cancelled)]
    assert len(first) == 2


def test_who_waits_may_give_up_without_spoiling_the_answer() -> None:
    go, shared = threading.Event(), Shared(10_000)

    def slow() -> str:
        go.wait(10)
        return "answer"

    leader = threading.Thread(target=lambda: shared.compute("key", slow))
    leader.start()
    time.sleep(0.02)

    def give_up() -> None:
        raise Cancelled

    with pytest.raises(Cancelled):
        shared.compute("key", lambda: "other", give_up)
    go.set()
    leader.join(5)
    assert shared.peek("key") == "answer"


def test_results_go_by_least_recent_use_within_the_bytes() -> None:
    shared = Shared(5_000)
    for name in "abc":
        shared.compute(name, lambda: np.zeros(150))  # 1,200 bytes and what an entry costs
    shared.peek("a")
    shared.compute("d", lambda: np.zeros(150))
    assert [name for name in "abcd" if shared.peek(name) is not MISSING] == ["a", "c", "d"]
    assert shared.bytes <= 5_000


def test_what_is_too_large_is_handed_out_and_not_kept() -> None:
    shared = Shared(1_000)
    assert len(shared.compute("large", lambda: np.zeros(1_000))) == 1_000
    assert (len(shared), shared.bytes) == (0, 0)


def test_none_is_a_result_too() -> None:
    shared = Shared(1_000)
    assert shared.compute("key", lambda: None) is None
    assert shared.peek("key") is None
    assert shared.peek("other") is MISSING


@dataclass(frozen=True)
class Parts:
    arrays: dict[str, np.ndarray]
    tensor: torch.Tensor
    words: tuple[str, ...]


def test_the_size_counts_arrays_and_tensors_once() -> None:
    array, tensor = np.zeros(1_000), torch.zeros(500)
    parts = Parts({"one": array, "again": array}, tensor, ("a" * 300,))
    assert 8_000 + 2_000 + 300 <= size_of(parts) <= 8_000 + 2_000 + 300 + 700
