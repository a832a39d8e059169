"""One question with few exact measurements: the same answer as the full sweep, and what is said of its risk."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from headlens.errors import HeadlensError
from headlens.importance import METHODS, Request
from headlens.importance.budgeted import AT_LEAST, RISK, answer, decide
from headlens.importance.question import Question, parse_question, settled
from headlens.importance.score import score
from headlens.importance.some_heads import SomeHeads
from headlens.metrics import METRICS
from headlens.store import Store
from tests.unit.helpers import lens_for, random_data
from tests.unit.importance.test_planted import PLANTED, planted, texts


class Oracle:
    """Exact values that are asked for one by one."""

    def __init__(self, values: np.ndarray) -> None:
        self.values, self.asked = values, np.zeros(len(values), dtype=bool)

    def __call__(self, which: np.ndarray) -> np.ndarray:
        assert not (which & self.asked).any(), "a head is measured once"
        self.asked |= which
        return np.where(which, self.values, np.nan)


def world(seed: int, heads: int = 1000, error: float = 0.15) -> tuple[np.ndarray, np.ndarray]:
    """Heavy-tailed scores as in real models, and estimates that are wrong in proportion to their size."""
    random = np.random.default_rng(seed)
    exact = random.standard_t(2, heads) * 0.01
    return exact, exact * (1 + error * random.standard_normal(heads)) + 0.001 * random.standard_normal(heads)


@pytest.mark.parametrize("top", [1, 10, 300, 700])
def test_the_answer_of_the_full_sweep_for_a_part_of_its_cost(top: int) -> None:
    wrong, cost = [], []
    for seed in range(12):
        exact, guess = world(seed)
        oracle = Oracle(exact)
        found = decide(guess, oracle, top, seed)
        truth = set(np.argsort(-exact)[:top].tolist())
        wrong.append(len(truth ^ set(np.flatnonzero(found.above).tolist())) / 2)
        cost.append(oracle.asked.mean())
        assert found.above.sum() == top
        assert (found.known == oracle.asked).all()
        np.testing.assert_array_equal(found.exact[found.known], exact[found.known])
    assert np.mean(cost) < 0.75
    assert np.mean(wrong) <= RISK * 1000
    assert np.median(wrong) <= 2


def test_intervals_hold_as_often_as_they_say() -> None:
    """Over many draws of calibration heads the heads that were not drawn are inside with at least 1 - RISK."""
    inside = []
    for seed in range(200):
        exact, guess = world(seed, heads=300, error=0.5)
        found = decide(guess, Oracle(exact), 150, seed)
        scale = np.abs(guess) + np.median(np.abs(guess))
        ratios = np.abs(exact - guess) / scale
        width = np.sort(ratios[found.drawn])[math.ceil((found.drawn.sum() + 1) * (1 - RISK)) - 1]
        unknown = ~found.known
        np.testing.assert_allclose((found.high - found.low)[unknown] / 2, (scale * width)[unknown])
        inside.append((ratios[~found.drawn] <= width).mean())
    assert np.mean(inside) >= 1 - RISK - 0.01


def test_an_estimate_that_knows_nothing_costs_every_head_and_no_error() -> None:
    random = np.random.default_rng(0)
    exact, guess = random.standard_normal(120), random.standard_normal(120)
    oracle = Oracle(exact)
    found = decide(guess, oracle, 12, 0)
    assert set(np.flatnonzero(found.above)) == set(np.argsort(-exact)[:12])
    assert oracle.asked.mean() > 0.9


def test_a_perfect_estimate_costs_the_calibration() -> None:
    exact = np.linspace(1, 2, 200)
    oracle = Oracle(exact)
    found = decide(exact.copy(), oracle, 20, 0)
    assert oracle.asked.sum() == AT_LEAST
    assert set(np.flatnonzero(found.above)) == set(range(180, 200))
    assert (found.alone, found.wrong) == (AT_LEAST, 0)


def test_fewer_heads_than_calibration_takes() -> None:
    exact = np.array([3.0, 1.0, 2.0])
    found = decide(np.zeros(3), Oracle(exact), 1, 0)
    assert found.above.tolist() == [True, False, False]
    assert found.known.all()


def test_settled_is_what_no_choice_of_values_changes() -> None:
    """Against all corners of the intervals."""
    random = np.random.default_rng(1)
    for _ in range(60):
        low = random.normal(size=6)
        high = low + random.exponential(0.7, 6) * (random.random(6) < 0.7)
        for top in range(1, 6):
            inside, outside = settled(low, high, top)
            tops = set()
            for corner in range(64):
                bits = np.array([corner >> bit & 1 for bit in range(6)], dtype=bool)
                tops.add(frozenset(np.argsort(-np.where(bits, high, low), kind="stable")[:top].tolist()))
            assert set(np.flatnonzero(inside)) == set.intersection(*map(set, tops))
            assert set(np.flatnonzero(outside)) == set(range(6)) - set.union(*map(set, tops))


def labels(scores: Any, count: int, top: bool) -> set[str]:
    flat, columns = scores.flat(), scores.columns()
    order = np.argsort(-flat if top else flat, kind="stable")[:count]
    return {scores.topology.label(*columns[i], scores.unit) for i in order}


@pytest.mark.parametrize(
    ("kind", "unit", "text", "count"),
    [("t5", "head", "top:4", 4), ("t5", "head", "bottom:0.25", 9), ("llama", "kv", "top:2", 2)],
)
def test_a_model_gives_the_answer_of_its_full_sweep(kind: str, unit: Any, text: str, count: int) -> None:
    lens, _ = lens_for(kind)
    request = Request(METRICS["loss"], random_data(kind, 6), unit=unit)
    full = score(lens, METHODS["ablation"], request)
    found = answer(lens, request, parse_question(text))
    assert set(found.labels) == labels(full, count, text.startswith("top"))
    known = np.isfinite(found.exact)
    np.testing.assert_allclose(found.exact[known], full.flat()[known], rtol=1e-9, atol=1e-12)
    sem = np.array([full.sem[site][layer, column] for site, layer, column in full.columns()])
    np.testing.assert_allclose(found.sem[known], sem[known], rtol=1e-9, atol=1e-12)
    assert found.baseline == pytest.approx(full.provenance["baseline"])
    assert f"{found.measured} of {len(found.exact)} heads" in found.saved()


def test_the_planted_head_is_the_top() -> None:
    lens = planted()
    found = answer(lens, Request(METRICS["loss"], texts()), Question("top", 1))
    assert found.labels == [lens.topology.label(*PLANTED, "head")]
    assert "Every head was measured" in found.error_risk()


def test_what_the_store_has_is_not_measured_again(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    lens, _ = lens_for("t5")
    request = Request(METRICS["loss"], random_data("t5", 4), store=Store(tmp_path))
    first = answer(lens, request, Question("top", 3))
    assert first.cached == 0
    monkeypatch.setattr(SomeHeads, "_measured", lambda *_: pytest.fail("it is in the store"))
    again = answer(lens, request, Question("top", 3))
    assert (again.labels, again.cached) == (first.labels, first.measured)


def test_a_full_sweep_answers_for_nothing(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    lens, _ = lens_for("t5")
    request = Request(METRICS["loss"], random_data("t5", 4), store=Store(tmp_path))
    full = score(lens, METHODS["ablation"], request)
    monkeypatch.setattr(SomeHeads, "_measured", lambda *_: pytest.fail("it is in the store"))
    assert set(answer(lens, request, Question("top", 3)).labels) == labels(full, 3, True)


@pytest.mark.parametrize("text", ["", "top", "top:0", "top:-1", "top:1.5", "bottom:1", "bottom:0", "bottom:0.0", "x:3"])
def test_no_question(text: str) -> None:
    with pytest.raises(HeadlensError, match="top:K"):
        parse_question(text)


def test_questions() -> None:
    assert parse_question("top:10").count(20) == 10
    assert parse_question("bottom:.3").count(20) == 6
    for text in ("top:20", "bottom:0.01"):
        with pytest.raises(HeadlensError, match="of 20 heads"):
            parse_question(text).count(20)


def test_what_the_gradient_does_not_estimate_is_refused() -> None:
    lens, _ = lens_for("gpt2")
    for metric, ablation in (("accuracy", "zero"), ("loss", "mean")):
        request = Request(METRICS[metric], random_data("gpt2"), ablation=ablation)  # type: ignore[arg-type]
        with pytest.raises(HeadlensError, match="--metric loss and --ablation zero"):
            answer(lens, request, Question("top", 1))
