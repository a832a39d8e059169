"""Ideal heads reach 0 bits, and each one removed costs exactly one bit."""

from __future__ import annotations

from itertools import combinations

import pytest

from headlens.lab.looking import attention_by_distance
from headlens.lab.pruning import best_subset, greedy, held_out_bench, prunable, score_bench
from headlens.lab.specs import SHAPES, Shape, Task
from tests.unit.lab.ideal import ideal_model

TASK = Task()


@pytest.mark.parametrize("shape", SHAPES)
def test_ideal_heads_know_everything_and_one_removed_costs_one_bit(shape: Shape) -> None:
    bench = held_out_bench(ideal_model(TASK, shape))
    assert bench.loss(range(4)).bits == pytest.approx(0, abs=1e-5)
    for size in range(4):
        for keep in combinations(range(4), size):
            assert bench.loss(keep).bits == pytest.approx(4 - size, abs=1e-4)
            by_distance = [0.0 if head in keep else 1.0 for head in range(4)]
            assert bench.by_distance(keep) == pytest.approx(by_distance, abs=1e-4)


@pytest.mark.parametrize("shape", SHAPES)
def test_each_ideal_head_attends_to_its_distance(shape: Shape) -> None:
    model = ideal_model(TASK, shape)
    attention = attention_by_distance(model, held_out_bench(model).tokens)
    assert attention.shape == (4, 14)
    for head, distance in enumerate(TASK.distances):
        assert attention[head, distance] == pytest.approx(1, abs=1e-4)


def test_greedy_pruning_finds_what_trying_all_subsets_finds() -> None:
    """Among twins and idle heads the best sets are not unique, so losses are compared, and the sets by hand."""
    serves = (4, None, 13, 1, 8, None, 4, 1)
    model = ideal_model(TASK, serves=serves)
    bench = score_bench(model)
    path = greedy(bench)
    assert [len(kept) for kept in path] == list(range(8, -1, -1))
    for kept in path:
        best = best_subset(bench, len(kept))
        assert bench.loss(kept).bits == pytest.approx(bench.loss(best).bits, abs=1e-4)
    assert {serves[head] for head in path[4]} == {1, 4, 8, 13}


def test_the_prunable_share_of_ideal_heads_is_the_share_of_spare_ones() -> None:
    found = prunable(ideal_model(TASK, serves=(4, None, 13, 1, 8, None, 4, 1)), 600)
    assert found.share == 0.5
    assert found.by_size == pytest.approx((4, 3, 2, 1, 0, 0, 0, 0, 0), abs=1e-3)
