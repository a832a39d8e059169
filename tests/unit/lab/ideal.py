"""A hand-built model: each head looks at one distance, sharply, and the read-out adds up what they say."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from headlens.lab.model import LabModel, build
from headlens.lab.specs import Architecture, Shape, Task

SHARP = 2000.0


def ideal_model(task: Task, shape: Shape = "llama", serves: Sequence[int | None] | None = None) -> LabModel:
    """One head for each entry of ``serves``: the distance that it looks at, or None for a head that writes nothing.

    Where several heads serve one distance, each writes the same, so any one of them suffices.
    """
    serves = task.distances if serves is None else serves
    architecture = Architecture(len(serves), shape)
    model = build(task, architecture, 0)
    d_head, width = architecture.d_head, architecture.width
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "norm" not in name:
                weight.zero_()
        model.backbone.embed_tokens.weight[:, :2] = torch.tensor([[1.0, -1.0], [1.0, 1.0]])
        scale = math.sqrt(width / 2)  # what RMSNorm makes of the two ones
        attention = model.layer.self_attn
        frequencies = 10000.0 ** (-2 * torch.arange(d_head // 2) / d_head)
        for head, distance in enumerate(serves):
            row = head * d_head
            if distance is not None:
                angle = -frequencies * distance
                attention.q_proj.weight[row : row + d_head, 0] = torch.cat([angle.cos(), angle.sin()]) * SHARP / scale
                attention.o_proj.weight[2 + task.distances.index(distance), row] = 10.0
            attention.k_proj.weight[row : row + d_head // 2, 0] = 1 / scale
            attention.v_proj.weight[row, 1] = 1 / scale
        if shape == "qwen3":
            attention.q_norm.weight.fill_(SHARP)
        for combination in range(task.outputs):
            for place in range(len(task.distances)):
                sign = 1.0 if combination >> place & 1 else -1.0
                model.read_out.weight[combination, 2 + place] = 10 * sign
    return model.eval()
