"""Training: the same bits again, a seed that matters, and a task that is learnt."""

from __future__ import annotations

import pytest
import torch

from headlens.lab.model import build
from headlens.lab.specs import Architecture, Task, Training
from headlens.lab.training import CURVE_POINTS, Point, checkpoint_steps, train

TASK = Task((1, 2), length=8)
SMALL = Architecture(2, width=32, mlp=32)


def trained(seed: int, steps: int = 30) -> tuple[dict[str, torch.Tensor], list[Point]]:
    model = build(TASK, SMALL, seed)
    curve = train(model, Training(steps, batch=8, seed=seed))
    return model.state_dict(), curve


def test_a_run_is_reproducible_to_the_bit_whatever_was_drawn_before() -> None:
    first, curve = trained(3)
    torch.rand(11)
    again, same = trained(3)
    assert all(torch.equal(weight, again[name]) for name, weight in first.items())
    assert curve == same
    other, _ = trained(4)
    assert not torch.equal(first["read_out.weight"], other["read_out.weight"])


def test_looking_at_checkpoints_does_not_change_the_run() -> None:
    plain, _ = trained(3)
    model, seen = build(TASK, SMALL, 3), []
    train(model, Training(30, batch=8, seed=3), on_checkpoint=seen.append)
    assert seen == list(checkpoint_steps(30)) == [0, 2, 3, 6, 10, 18, 30]
    assert all(torch.equal(weight, plain[name]) for name, weight in model.state_dict().items())


def test_the_optimiser_is_plain_adamw_with_one_cycle() -> None:
    """The same steps written down once more, without the lab's loop."""
    from headlens.lab.task import generator, nll, parts, sequences

    expected, _ = trained(3)
    model, source = build(TASK, SMALL, 3), generator("training", 3)
    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 3e-3, total_steps=30)
    for _ in range(30):
        tokens = sequences(TASK, 8, source)
        optimiser.zero_grad()
        nll(TASK, model(tokens), parts(TASK, tokens)).mean().backward()
        optimiser.step()
        schedule.step()
    assert all(torch.equal(weight, expected[name]) for name, weight in model.state_dict().items())


def test_an_easy_task_is_learnt_and_the_curve_says_so() -> None:
    _, curve = trained(0, steps=240)
    assert len(curve) == CURVE_POINTS
    assert curve[-1].step == 240
    assert curve[0].bits == pytest.approx(2, abs=0.3)
    assert curve[-1].bits < 0.1
