"""Which distance each head attends to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    import numpy as np

    from headlens.lab.model import LabModel


def attention_by_distance(model: LabModel, tokens: torch.Tensor) -> np.ndarray:
    """Mean attention of every head to the token at each distance back, over sequences and scored positions.

    Returns:
        float32 ``[heads, distance]`` for distances 0 to the longest of the task.
    """
    pattern, first = model.patterns(tokens).mean(0), model.task.first  # [heads, query, key]
    queries = torch.arange(first, model.task.length)
    columns = [pattern[:, queries, queries - distance].mean(-1) for distance in range(first + 1)]
    return torch.stack(columns, -1).float().numpy()
