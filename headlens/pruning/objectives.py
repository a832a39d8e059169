"""What recovery makes small: the loss of the task, or the distance from a teacher."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import torch

from headlens.data.batch import IGNORE
from headlens.metrics import at_least_float32, pooled, readout

if TYPE_CHECKING:
    from torch import Tensor

    from headlens.data.batch import Batch
    from headlens.lens import Lens

Objective = Literal["task", "distill"]
OBJECTIVES: dict[Objective, str] = {"task": "the loss of the task", "distill": "the distance from the full model"}


def task_loss(values: Tensor, batch: Batch) -> Tensor:
    """Summed cross-entropy in nats over the predictions of a batch, a scalar.

    Args:
        values: logits ``[rows, position, classes]``, see :func:`headlens.metrics.readout`.
        batch: the batch that gave them; it has targets.
    """
    assert batch.targets is not None
    chosen = batch.targets != IGNORE
    return torch.nn.functional.cross_entropy(at_least_float32(values[chosen]), batch.targets[chosen], reduction="sum")


def distillation_loss(values: Tensor, clean: Tensor, batch: Batch, temperature: float = 1.0) -> Tensor:
    """Summed distance of a student from its teacher over the predictions (bare encoders: examples), a scalar.

    With logits: ``T^2 KL(softmax(teacher / T) || softmax(student / T))`` (Hinton, Vinyals, Dean 2015, arXiv
    1503.02531; the factor keeps the size of the gradients). At T = 1 it is the drift that is reported. Bare encoders:
    1 - cosine of the mean-pooled embeddings, which says nothing of their length, as the drift does not.

    Args:
        values: of the student.
        clean: of the teacher, both as :func:`headlens.metrics.readout` gives them.
        batch: the batch that gave them.
        temperature: T, above 0.
    """
    if batch.targets is None:
        cosine = torch.nn.functional.cosine_similarity(pooled(values, batch), pooled(clean, batch), dim=-1)
        return (1 - cosine).sum()
    chosen = batch.targets != IGNORE
    student = (at_least_float32(values[chosen]) / temperature).log_softmax(-1)
    teacher = (at_least_float32(clean[chosen]) / temperature).log_softmax(-1)
    return temperature**2 * torch.nn.functional.kl_div(student, teacher, reduction="sum", log_target=True)


def weight_of(batch: Batch) -> int:
    """What the sums above are divided by: predictions, or examples where nothing is predicted."""
    return len(batch.indices) if batch.targets is None else int((batch.targets != IGNORE).sum())


def summed_loss(
    student: Lens, batch: Batch, objective: Objective, teacher: Lens | None = None, temperature: float = 1.0
) -> Tensor:
    """The objective of one batch, with a graph behind it; the teacher is run without one."""
    values = readout(student.forward(batch.inputs), student.task)
    if objective == "task":
        return task_loss(values, batch)
    assert teacher is not None
    with torch.no_grad():
        clean = readout(teacher.forward(batch.inputs), teacher.task)
    return distillation_loss(values, clean, batch, temperature)
