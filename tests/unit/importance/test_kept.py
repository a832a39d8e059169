"""Contributions are computed once: the store gives them back, unless a fresh computation is asked for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headlens.importance import METHODS, Method, Raw, Request
from headlens.importance.score import contributions, from_raw, score, stored
from headlens.lens import Lens
from headlens.metrics import METRICS
from headlens.reliability import split_half
from headlens.store import Store
from tests.unit.helpers import lens_for, random_data

KEPT = ("gradient", "fisher", "output-norm", "confidence")


class Counting(Method):
    """A method that counts how often it is really asked."""

    def __init__(self, inner: Method) -> None:
        self.inner, self.calls = inner, 0
        for name in ("name", "title", "formula", "source", "needs", "signed", "cost"):
            setattr(self, name, getattr(inner, name))

    def compute(self, lens: Lens, request: Request) -> Raw:
        self.calls += 1
        return self.inner.compute(lens, request)


@pytest.fixture
def request_on(tmp_path: Path) -> Any:
    """``request_on(kind, **options)``: a lens and a request with a store of its own."""

    def make(kind: str, **options: Any) -> tuple[Lens, Request]:
        lens, _ = lens_for(kind)
        return lens, Request(METRICS["loss"], random_data(kind), store=Store(tmp_path), **options)

    return make


@pytest.mark.parametrize("name", KEPT)
@pytest.mark.parametrize("kind", ["gpt2", "t5"])
def test_the_second_time_comes_from_the_store(request_on: Any, name: str, kind: str) -> None:
    lens, request = request_on(kind)
    method = Counting(METHODS[name])
    first, second = (score(lens, method, request) for _ in range(2))
    assert method.calls == 1
    for site, values in first.values.items():
        np.testing.assert_array_equal(values, second.values[site])
        np.testing.assert_array_equal(first.sem[site], second.sem[site])
    assert (first.reliability, first.no_signal) == (second.reliability, second.no_signal)
    assert first.provenance["baseline"] == second.provenance["baseline"]
    layers = sum(len(site.layers) for site in lens.topology.sites)
    assert (first.provenance["cached"], second.provenance["cached"]) == (0, layers)
    assert second.provenance["seconds"] == 0


def test_a_fresh_computation_can_be_asked_for(request_on: Any) -> None:
    lens, request = request_on("gpt2")
    method = Counting(METHODS["gradient"])
    score(lens, method, request)
    assert score(lens, method, replace(request, resume=False)).provenance["cached"] == 0
    assert method.calls == 2


def test_what_differs_is_computed(request_on: Any) -> None:
    lens, request = request_on("llama")
    method = Counting(METHODS["gradient"])
    few = replace(request.data, examples=request.data.examples[:3])
    asked = [request, replace(request, signed=True), replace(request, unit="kv"), replace(request, data=few)]
    found = [score(lens, method, each) for each in asked]
    assert method.calls == len(asked)
    assert len({scores.flat().tobytes() for scores in found}) == len(asked)


def test_methods_without_data_and_sweeps_keep_nothing_here(request_on: Any) -> None:
    lens, request = request_on("gpt2")
    for name in ("magnitude", "random"):
        contributions(lens, METHODS[name], request)
        assert stored(lens, METHODS[name], request) is None
    assert not list(request.store.root.glob("??/*"))


def test_stored_looks_and_computes_nothing(request_on: Any) -> None:
    lens, request = request_on("gpt2")
    assert stored(lens, METHODS["fisher"], request) is None
    raw = contributions(lens, METHODS["fisher"], request)
    found = stored(lens, METHODS["fisher"], request)
    assert found is not None
    np.testing.assert_array_equal(found.numerator["self"], raw.numerator["self"])


def test_absolute_scores_are_sizes_with_a_reliability_of_their_own(request_on: Any) -> None:
    lens, request = request_on("gpt2")
    raw = contributions(lens, METHODS["ablation"], request)
    signed = from_raw(lens, METHODS["ablation"], request, raw)
    absolute = from_raw(lens, METHODS["ablation"], request, raw, absolute=True)
    np.testing.assert_array_equal(absolute.array, np.abs(signed.array))
    assert signed.array.min() < 0
    assert absolute.reliability != signed.reliability


def test_reliability_of_sizes() -> None:
    # Two halves with opposite signs and equal sizes: no order in common, the same order by size.
    sizes = np.array([1.0, 2.0, 4.0, 8.0])
    numerator = {"self": np.stack([np.outer([1, -1][i % 2], sizes) for i in range(2)] * 2)}
    denominator = {"self": np.ones(4)}
    doubled = {"self": numerator["self"] * np.array([1, 1, 3, 3])[:, None, None]}
    assert split_half(doubled, denominator, absolute=True) != split_half(doubled, denominator)
