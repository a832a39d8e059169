"""Which heads of a layer stay, and what that leaves of its matrices and of the numbers that its class keeps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from headlens.models.families.projections import in_out

if TYPE_CHECKING:
    from torch import Tensor

_HEADS = ("num_heads", "num_attention_heads", "n_heads")
_KV_HEADS = ("num_key_value_heads", "num_kv_heads")
_WIDTHS = ("all_head_size", "inner_dim", "split_size")


@dataclass(frozen=True)
class Kept:
    """Which heads of one layer stay.

    Attributes:
        heads: labels of the query heads that are there, in weight order.
        keep: labels of those that stay, in the same order.
        kv_of: KV group of each head of the uncut layer, by label.
    """

    heads: tuple[int, ...]
    keep: tuple[int, ...]
    kv_of: tuple[int, ...]

    @property
    def changed(self) -> bool:
        """Whether a head goes."""
        return self.keep != self.heads

    @property
    def positions(self) -> list[int]:
        """Where the heads that stay are among those that are there."""
        return [self.heads.index(head) for head in self.keep]

    @property
    def groups(self) -> tuple[int, ...]:
        """Labels of the KV groups that stay: those with a query head."""
        return tuple(sorted({self.kv_of[head] for head in self.keep}))

    @property
    def kv_positions(self) -> list[int]:
        """Where the KV heads that stay are among those that are there."""
        there = sorted({self.kv_of[head] for head in self.heads})
        return [there.index(group) for group in self.groups]

    @property
    def reads(self) -> tuple[int, ...]:
        """For each head that stays, the position of its KV head among those that stay."""
        return tuple(self.groups.index(self.kv_of[head]) for head in self.keep)

    @property
    def even(self) -> bool:
        """Whether all KV groups that stay have equally many query heads."""
        heads, groups = len(self.keep), len(self.groups)
        return not heads or (heads % groups == 0 and self.reads == even_reads(heads, groups))


def even_reads(heads: int, kv_heads: int) -> tuple[int, ...]:
    """The KV head that each query head reads where every KV head serves equally many of them."""
    return tuple(head * kv_heads // heads for head in range(heads))


@dataclass(frozen=True)
class Slice:
    """A parameter of which only some entries stay: ``parameter.index_select(dim, index)``."""

    module: nn.Module
    name: str
    dim: int
    index: tuple[int, ...]

    def of(self, tensor: Tensor) -> Tensor:
        """What stays of ``tensor``, in memory of its own."""
        return tensor.index_select(self.dim, torch.tensor(self.index, dtype=torch.long, device=tensor.device))


def output_slices(module: nn.Module, index: Sequence[int]) -> list[Slice]:
    """Keeps these output features of a linear map."""
    found = [Slice(module, "weight", 0 if hasattr(module, "in_features") else 1, tuple(index))]
    if getattr(module, "bias", None) is not None:
        found.append(Slice(module, "bias", 0, tuple(index)))
    return found


def input_slice(module: nn.Module, index: Sequence[int]) -> Slice:
    """Keeps these input features of a linear map."""
    return Slice(module, "weight", 1 if hasattr(module, "in_features") else 0, tuple(index))


def features(heads: Iterable[int], width: int) -> list[int]:
    """Numbers of the features of some heads, each ``width`` wide, lying side by side."""
    return [head * width + feature for head in heads for feature in range(width)]


def apply_slices(slices: Iterable[Slice]) -> None:
    """Makes the parameters smaller where they are, and the widths that their modules know."""
    for cut in slices:
        parameter: Any = getattr(cut.module, cut.name)
        smaller = nn.Parameter(cut.of(parameter.detach()), requires_grad=parameter.requires_grad)
        setattr(cut.module, cut.name, smaller)
        if cut.name == "weight" and parameter.dim() == 2:
            wide = in_out(cut.module)
            module: Any = cut.module
            if hasattr(module, "in_features"):
                module.in_features, module.out_features = wide.shape
            elif hasattr(module, "nf"):  # Conv1D
                module.nx, module.nf = wide.shape
            elif hasattr(module, "embedding_dim"):
                module.num_embeddings, module.embedding_dim = wide.shape


def set_numbers(attention: Any, kept: Kept, d_head: int) -> None:
    """Tells an attention module how many heads it has now, in whatever words its class uses."""
    heads, kv_heads = len(kept.keep), len(kept.groups)
    values = {**dict.fromkeys(_HEADS, heads), **dict.fromkeys(_KV_HEADS, kv_heads)}
    values |= dict.fromkeys(_WIDTHS, heads * d_head)
    for name, value in values.items():
        if isinstance(getattr(attention, name, None), int):
            setattr(attention, name, value)
    if hasattr(attention, "num_key_value_groups"):
        attention.num_key_value_groups = heads // kv_heads if kept.even and kv_heads else 1
