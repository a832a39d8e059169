"""What a model of the lab costs: parameters, compute, and what makes two models equal in one of them."""

from __future__ import annotations

from dataclasses import replace

from headlens.errors import HeadlensError
from headlens.lab.specs import Architecture, RunSpec, Task


def parameters(architecture: Architecture, task: Task) -> int:
    """Trainable numbers: embedding, attention, MLP, norms and read-out (not shared with the embedding)."""
    a = architecture
    attention = 4 * a.width * a.heads * a.d_head + (2 * a.d_head if a.shape == "qwen3" else 0)
    read_out = (a.width + 1) * task.outputs
    return task.symbols * a.width + attention + 3 * a.width * a.mlp + 3 * a.width + read_out


def flops_a_step(architecture: Architecture, task: Task, batch: int) -> int:
    """Floating-point operations of one training step, counting matrix products only.

    A product of ``[m, k]`` and ``[k, n]`` counts 2mkn; the backward pass counts as two forward passes. Attention is
    counted over the full square, as it is computed, though half of it is masked.
    """
    a = architecture
    inner = a.heads * a.d_head
    a_token = 4 * a.width * inner + 2 * task.length * inner + 3 * a.width * a.mlp
    forward = 2 * (task.length * a_token + task.positions * a.width * task.outputs)
    return 3 * batch * forward


def flops(run: RunSpec) -> int:
    """Floating-point operations of a run's training alone (without that of the run that it starts from)."""
    architecture = run.architecture
    if run.after is not None:
        architecture = replace(architecture, heads=run.after.heads)
    return run.steps * flops_a_step(architecture, run.task, run.training.batch)


def with_equal_parameters(small: Architecture, large: Architecture, task: Task) -> Architecture:
    """``small`` with the MLP widened until it has the parameters of ``large``, to within half an MLP unit.

    Raises:
        HeadlensError: ``small`` has more parameters than ``large`` even with an MLP of one unit.
    """
    unit = 3 * small.width
    missing = parameters(large, task) - parameters(small, task)
    mlp = small.mlp + round(missing / unit)
    if mlp < 1:
        raise HeadlensError("no MLP is small enough to give both models the same number of parameters")
    return replace(small, mlp=mlp)


def with_equal_compute(small: Architecture, large: Architecture, task: Task, steps: int) -> int:
    """Steps in which ``small`` spends the compute that ``large`` spends in ``steps``, rounded to whole steps."""
    return max(2, round(steps * flops_a_step(large, task, 1) / flops_a_step(small, task, 1)))


def with_equal_width(small: Architecture, large: Architecture) -> Architecture:
    """``small`` with wider heads, so that all heads together are as wide as those of ``large``.

    Raises:
        HeadlensError: the width cannot be shared out evenly.
    """
    total = large.heads * large.d_head
    if total % (2 * small.heads):
        raise HeadlensError(
            f"{large.heads} heads of {large.d_head} cannot be shared out to {small.heads} heads of an even width; "
            "choose numbers of heads that divide each other"
        )
    return replace(small, d_head=total // small.heads)
