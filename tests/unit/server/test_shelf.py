"""The shelf of opened models: opened once, kept by least-recent use within bytes, still there while in use."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from typing import Any

import pytest
import torch

from headlens.errors import ModelError
from headlens.server.shelf import Shelf, bytes_of


class Fake:
    """As much of a Lens as the shelf looks at; 4,000 bytes a thousand numbers."""

    def __init__(self, name: str, numbers: int = 1_000) -> None:
        self.name = name
        self.model = torch.nn.Linear(numbers, 1, bias=False)


class Kept:
    nbytes = 3_000


def shelf(limit: int, opened: list[str], **more: Any) -> Shelf:
    def open_model(name: str) -> Any:
        opened.append(name)
        time.sleep(0.02)
        return Fake(name)

    return Shelf(open_model, lambda: limit, **more)


def test_many_who_ask_at_once_open_it_once() -> None:
    opened: list[str] = []
    models = shelf(10_000, opened)
    found: list[Any] = []
    threads = [threading.Thread(target=lambda: found.append(models.get("a"))) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert opened == ["a"]
    assert len({id(lens) for lens in found}) == 1


def test_the_least_recently_used_goes_and_its_memory_with_it() -> None:
    opened: list[str] = []
    models = shelf(9_000, opened)
    gone = weakref.ref(models.get("a"))
    models.get("b")
    models.get("a")
    b = weakref.ref(models.get("b"))
    models.get("a")
    models.get("c")  # 12,000 bytes: b has been used least recently
    gc.collect()
    assert b() is None
    assert gone() is not None
    assert [held.name for held in models.held()] == ["a", "c"]
    assert opened == ["a", "b", "c"]


def test_what_is_kept_with_a_model_counts_and_goes_with_it() -> None:
    models, forgotten = shelf(10_000, []), []
    models._on_gone = lambda: forgotten.append(True)
    models.get("a")
    b = models.get("b")
    kept: Any = models.companion(b, "live", Kept)
    assert models.companion(b, "live", Kept) is kept
    assert models.peek(b, "live") is kept
    assert [held.name for held in models.held() if held.kept] == ["b"]  # 4,000 + 4,000 + 3,000 are too many
    assert forgotten


def test_a_model_in_use_comes_back_without_being_opened_again() -> None:
    opened: list[str] = []
    models = shelf(5_000, opened)
    in_use = models.get("a")
    models.get("b")
    assert {held.name: held.kept for held in models.held()} == {"a": False, "b": True}
    assert models.get("a") is in_use
    assert opened == ["a", "b"]


def test_a_model_beyond_the_limit_is_refused_before_it_is_opened() -> None:
    opened: list[str] = []
    models = shelf(5_000_000, opened, needed_bytes=lambda name: 8_000_000)
    with pytest.raises(ModelError, match="takes 8 MB of memory, and this server gives models 5 MB"):
        models.get("large")
    assert opened == []


def test_a_model_that_cannot_be_opened_is_tried_again() -> None:
    tries: list[str] = []

    def open_model(name: str) -> Any:
        tries.append(name)
        if len(tries) == 1:
            raise ModelError("not now")
        return Fake(name)

    models = Shelf(open_model, lambda: 10_000)
    with pytest.raises(ModelError):
        models.get("a")
    assert models.get("a").name == "a"


def test_shared_weights_count_once() -> None:
    lens: Any = Fake("a")
    lens.model.again = lens.model.weight
    assert bytes_of(lens) == 4_000
