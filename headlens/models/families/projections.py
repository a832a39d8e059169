"""Linear maps around the heads: which of their features belong to which head, whatever way they are stored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from headlens.models.offloaded import at_hand

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True)
class Columns:
    """What each head owns of a projection's output: ``index`` ``[heads, width]`` numbers its output features."""

    module: nn.Module
    index: torch.Tensor

    @property
    def weight(self) -> torch.Tensor:
        """Matrix of each head, ``[heads, d_in, width]``: the head gets ``x @ weight[head] + bias[head]``."""
        matrix = in_out(self.module)
        return matrix[:, self.index.to(matrix.device)].transpose(0, 1)

    @property
    def bias(self) -> torch.Tensor | None:
        """Bias of each head, ``[heads, width]``, or None."""
        bias: torch.Tensor | None = at_hand(self.module, "bias")
        return None if bias is None else bias[self.index.to(bias.device)]


def thirds(module: nn.Module, heads: int) -> dict[str, Columns]:
    """A fused projection that holds q, k and v of all heads one after the other."""
    index = torch.arange(out_features(module)).reshape(3, heads, -1)
    return {part: Columns(module, index[i]) for i, part in enumerate("qkv")}


def interleaved(module: nn.Module, heads: int) -> dict[str, Columns]:
    """A fused projection that holds q, k and v of head 0, then those of head 1, ..."""
    index = torch.arange(out_features(module)).reshape(heads, 3, -1)
    return {part: Columns(module, index[:, i]) for i, part in enumerate("qkv")}


def in_features(projection: nn.Module) -> int:
    """Input width of a Linear or of GPT-2's Conv1D."""
    if hasattr(projection, "in_features"):
        return int(projection.in_features)  # type: ignore[arg-type]
    return int(projection.weight.shape[0])  # type: ignore[union-attr, index]


def out_features(projection: nn.Module) -> int:
    """Output width of a Linear or of GPT-2's Conv1D."""
    return int(_turned(projection, projection.weight).shape[1])  # type: ignore[arg-type]


def in_out(projection: nn.Module) -> torch.Tensor:
    """The projection's matrix as ``[input, output]`` (Linear stores the transpose, Conv1D does not)."""
    return _turned(projection, at_hand(projection))


def _turned(projection: nn.Module, weight: torch.Tensor) -> torch.Tensor:
    return weight.T if hasattr(projection, "in_features") else weight
