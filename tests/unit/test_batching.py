"""When memory runs out: smaller portions, the same numbers, and nothing that is in the store computed again."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from headlens.batching import at_once, portions, within_memory
from headlens.errors import HeadlensError
from headlens.importance import METHODS, Request
from headlens.importance.score import score
from headlens.lens import Lens
from headlens.metrics import METRICS
from headlens.store import Store
from tests.unit.helpers import lens_for, random_data


class Short:
    """Stands in for ``Lens.forward`` on a machine that can hold so many tokens at once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, tokens: int, error: type[Exception] = torch.OutOfMemoryError):
        self.seen: list[int] = []
        whole = Lens.forward

        def forward(lens: Lens, inputs: Mapping[str, Tensor], run: Any = None) -> Any:
            size = max(value.numel() for name, value in inputs.items() if name.endswith("ids"))
            self.seen.append(size)
            if size > tokens:
                raise error("CUDA out of memory. Tried to allocate 2.00 GiB")
            return whole(lens, inputs, run)

        monkeypatch.setattr(Lens, "forward", forward)


@pytest.mark.parametrize("method", ["ablation", "gradient", "output-norm"])
@pytest.mark.parametrize("error", [torch.OutOfMemoryError, RuntimeError])
def test_half_as_much_until_it_fits(method: str, error: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    lens, _ = lens_for("gpt2")
    data = random_data("gpt2", 6)
    expected = score(lens, METHODS[method], Request(METRICS["loss"], data)).array
    short = Short(monkeypatch, 20, error)
    said: list[str] = []
    found = within_memory(lambda: score(lens, METHODS[method], Request(METRICS["loss"], data)), say=said.append)
    np.testing.assert_allclose(found.array, expected, rtol=1e-9, atol=1e-12)
    assert len(said) >= 1
    assert all("half as large" in line for line in said)
    assert max(short.seen) > 20
    assert short.seen[-1] <= 20


def test_finished_layers_are_not_computed_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    lens, _ = lens_for("gpt2")
    data = random_data("gpt2", 4)
    layers: list[int] = []
    fail = [True]

    def on_unit(unit: Any) -> None:
        layers.append(unit.layer)
        if unit.layer == 1 and fail and fail.pop():
            raise torch.OutOfMemoryError("CUDA out of memory")

    request = Request(METRICS["loss"], data, store=Store(tmp_path), on_unit=on_unit)
    found = within_memory(lambda: score(lens, METHODS["ablation"], request), say=lambda _: None)
    assert layers == [0, 1, 0, 1, 2]
    assert found.provenance["cached"] == 2
    np.testing.assert_allclose(
        found.array, score(lens, METHODS["ablation"], Request(METRICS["loss"], data)).array, rtol=1e-9, atol=1e-12
    )


def test_what_never_fits_ends_with_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headlens.batching._free", lambda: None)  # ten collections of a test run's objects take long
    said: list[str] = []

    def never() -> None:
        raise MemoryError

    with pytest.raises(HeadlensError, match="smaller --max-tokens") as caught:
        within_memory(never, say=said.append)
    assert "\n" not in str(caught.value)
    assert len(said) == 10


def test_other_errors_pass() -> None:
    def wrong() -> None:
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")

    with pytest.raises(RuntimeError, match="mat1"):
        within_memory(wrong, say=pytest.fail)


def test_the_scale_ends_with_its_block() -> None:
    assert at_once(8) == 8
    with portions(0.25):
        assert (at_once(8), at_once(3), at_once(1)) == (2, 1, 1)
        with portions(16):
            assert at_once(8) == 128
    assert at_once(8) == 8


def test_batches_follow_the_scale() -> None:
    data = random_data("gpt2", 9)
    assert [len(batch.indices) for batch in data.batches(4)] == [4, 4, 1]
    with portions(0.5):
        assert [len(batch.indices) for batch in data.batches(4)] == [2, 2, 2, 2, 1]
