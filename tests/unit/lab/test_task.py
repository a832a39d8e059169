"""Targets and losses against plain loops."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from headlens.errors import HeadlensError
from headlens.lab.specs import Task
from headlens.lab.task import generator, measured, nll, nll_by_distance, parts, sequences


def test_targets_are_the_symbols_at_the_distances() -> None:
    task = Task((3, 1), symbols=5, length=9)
    tokens = sequences(task, 7, generator("test", 0))
    wanted = parts(task, tokens)
    assert wanted.shape == (7, 6, 2)
    for row, position in itertools.product(range(7), range(6)):
        at = position + 3
        assert wanted[row, position].tolist() == [tokens[row, at - 3].item(), tokens[row, at - 1].item()]
    assert tokens.min() == 0
    assert tokens.max() == 4


@pytest.mark.parametrize("symbols", [2, 3])
def test_joint_losses_are_those_of_enumerated_combinations(symbols: int) -> None:
    task = Task((1, 2, 4), symbols=symbols, length=6)
    tokens = sequences(task, 3, generator("test", 1))
    wanted = parts(task, tokens)
    logits = torch.randn(3, 2, task.outputs, generator=generator("test", 2), dtype=torch.float64)
    whole, apart = nll(task, logits, wanted), nll_by_distance(task, logits, wanted)
    combinations = [c[::-1] for c in itertools.product(range(symbols), repeat=3)]  # place 0 counts least
    for row, position in itertools.product(range(3), range(2)):
        probability = logits[row, position].softmax(-1).tolist()
        right = wanted[row, position].tolist()
        assert whole[row, position] == pytest.approx(-math.log(probability[combinations.index(tuple(right))]))
        for place in range(3):
            mass = sum(p for c, p in zip(combinations, probability, strict=True) if c[place] == right[place])
            assert apart[row, position, place] == pytest.approx(-math.log(mass))


def test_with_many_combinations_each_distance_has_its_own_read_out() -> None:
    task = Task((1, 2, 3, 4), symbols=16, length=8)
    assert not task.joint
    assert task.outputs == 64
    tokens = sequences(task, 2, generator("test", 3))
    wanted = parts(task, tokens)
    logits = torch.randn(2, 4, 64, generator=generator("test", 4))
    each = nll_by_distance(task, logits, wanted)
    for place in range(4):
        own = logits[0, 1, 16 * place : 16 * place + 16].log_softmax(-1)
        assert each[0, 1, place] == pytest.approx(-own[wanted[0, 1, place]].item(), rel=1e-5)
    assert torch.allclose(nll(task, logits, wanted), each.sum(-1))


def test_guessing_costs_what_the_task_says() -> None:
    for task in (Task(), Task((1, 3), symbols=5), Task((1, 2, 3, 4), symbols=16)):
        tokens = sequences(task, 50, generator("test", 5))
        loss = nll(task, torch.zeros(50, task.positions, task.outputs), parts(task, tokens))
        assert measured(loss).bits == pytest.approx(task.guessing, rel=1e-5)


def test_the_standard_error_is_over_sequences() -> None:
    losses = torch.tensor([[1.0, 3.0], [2.0, 6.0], [0.0, 0.0]]) * math.log(2)
    found = measured(losses)
    assert found.bits == pytest.approx(2)
    assert found.sem == pytest.approx(2 / math.sqrt(3))  # of 2, 4, 0: standard deviation 2


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"distances": (1, 32)}, "distance 32 is not in the sequence"),
        ({"distances": (0, 3)}, "distance 0"),
        ({"distances": ()}, "there is no distance"),
        ({"distances": (3, 3)}, "named twice"),
        ({"distances": tuple(range(1, 18))}, "at most 16"),
        ({"symbols": 1}, "number of symbols is 1"),
        ({"symbols": 65}, "number of symbols is 65"),
        ({"length": 2}, "length of a sequence is 2"),
        ({"length": 100_000}, "length of a sequence"),
    ],
)
def test_tasks_that_cannot_be_are_refused(change: dict[str, object], says: str) -> None:
    with pytest.raises(HeadlensError, match=says) as caught:
        Task(**change)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)
