"""The two objectives against plain torch."""

from __future__ import annotations

import pytest
import torch

from headlens.data.batch import IGNORE, Batch
from headlens.metrics import METRICS, reference, sums_of
from headlens.pruning.objectives import distillation_loss, task_loss, weight_of

TARGETS = torch.tensor([[3, 1, IGNORE], [0, IGNORE, IGNORE]])


def batch(targets: torch.Tensor | None = TARGETS) -> Batch:
    mask = torch.tensor([[1, 1, 1], [1, 1, 0]])
    return Batch((0, 1), {"input_ids": mask, "attention_mask": mask}, targets)


def logits(seed: int) -> torch.Tensor:
    return torch.randn(2, 3, 5, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_the_task_loss_is_the_summed_negative_log_probability() -> None:
    values = logits(0)
    p = values.exp() / values.exp().sum(-1, keepdim=True)
    wanted = -(p[0, 0, 3].log() + p[0, 1, 1].log() + p[1, 0, 0].log())
    assert float(task_loss(values, batch())) == pytest.approx(float(wanted), rel=1e-12)
    assert weight_of(batch()) == 3


@pytest.mark.parametrize("temperature", [1.0, 2.5])
def test_distillation_is_the_divergence_of_softened_probabilities(temperature: float) -> None:
    student, teacher = logits(1), logits(2)
    wanted = 0.0
    for row, position in ((0, 0), (0, 1), (1, 0)):
        t = torch.softmax(teacher[row, position] / temperature, -1)
        s = torch.softmax(student[row, position] / temperature, -1)
        wanted += temperature**2 * float((t * (t.log() - s.log())).sum())
    found = distillation_loss(student, teacher, batch(), temperature)
    assert float(found) == pytest.approx(wanted, rel=1e-12)
    assert float(distillation_loss(teacher, teacher, batch(), temperature)) == pytest.approx(0.0, abs=1e-12)


def test_at_temperature_one_it_is_the_drift_that_is_reported() -> None:
    student, teacher = logits(1), logits(2)
    total, _ = sums_of([METRICS["drift"]], student, batch(), reference(teacher, batch()))["drift"]
    assert float(distillation_loss(student, teacher, batch())) == pytest.approx(float(total.sum()), rel=1e-12)


def test_bare_encoders_learn_the_direction_of_the_pooled_embedding() -> None:
    student, teacher = logits(1), logits(2)
    wanted = 0.0
    for row, length in ((0, 3), (1, 2)):
        s, t = (values[row, :length].mean(0) for values in (student, teacher))
        wanted += 1 - float(s @ t / (s.norm() * t.norm()))
    assert float(distillation_loss(student, teacher, batch(None))) == pytest.approx(wanted, rel=1e-12)
    assert float(distillation_loss(7 * teacher, teacher, batch(None))) == pytest.approx(0.0, abs=1e-12)
    assert weight_of(batch(None)) == 2


def test_gradients_reach_the_student() -> None:
    for targets in (TARGETS, None):
        student = logits(1).requires_grad_()
        distillation_loss(student, logits(2), batch(targets)).backward()
        assert student.grad is not None
        assert float(student.grad.abs().sum()) > 0
