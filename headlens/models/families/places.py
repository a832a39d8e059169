"""Where heads are in a model: declared for a family (stacks and sites), found in one model (places)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headlens.errors import ModelError
from headlens.models.families.kept import even_reads
from headlens.models.families.projections import in_out

if TYPE_CHECKING:
    import torch
    from torch import nn


@dataclass(frozen=True)
class Place:
    """One attention layer of one site: the modules around its heads.

    Attributes:
        block: transformer block; whole blocks are skipped when a prefix is reused.
        attention: module that computes the attention weights.
        out_proj: output projection; its input is the heads' ``z`` side by side, ``[batch, query, heads * d_head]``.
        heads: query heads that are present.
        kv_heads: key/value heads that are present.
        d_head: width of one head's ``z``.
        causal: a query sees only keys at or before its own position.
        pairs: for each query head its KV head, where they are not shared out evenly (a cut model); else None.
    """

    block: nn.Module
    attention: nn.Module
    out_proj: nn.Module
    heads: int
    kv_heads: int
    d_head: int
    causal: bool
    pairs: tuple[int, ...] | None = None

    @property
    def reads(self) -> tuple[int, ...]:
        """For each query head that is present, the position of its KV head among those present."""
        return even_reads(self.heads, self.kv_heads) if self.pairs is None else self.pairs


@dataclass(frozen=True)
class SitePlaces:
    """One site: its name, the stack of blocks it lives in, and its layers in call order."""

    name: str
    stack: str
    layers: tuple[Place, ...]


@dataclass(frozen=True)
class SiteSpec:
    """Where a site is inside a block.

    Attributes:
        name: ``self``, ``enc``, ``dec``, ``cross``, ``text`` or ``vision``.
        attention: dotted path from the block to the module that computes attention weights.
        out_proj: dotted path from the block to the output projection.
        causal: whether the attention is causal.
    """

    name: str
    attention: str
    out_proj: str
    causal: bool = False


@dataclass(frozen=True)
class StackSpec:
    """A stack of blocks: dotted path from the base model to its module list, and the sites in each block."""

    name: str
    blocks: str
    sites: tuple[SiteSpec, ...]


def has(module: nn.Module, path: str) -> bool:
    try:
        module.get_submodule(path)
    except AttributeError:
        return False
    return True


def submodule(module: nn.Module, path: str) -> nn.Module:
    """``module.get_submodule`` with a ModelError that names the missing part."""
    try:
        return module.get_submodule(path)
    except AttributeError as error:
        raise ModelError(f"{type(module).__name__} has no {path!r}: this version of its class is not known") from error


def output_weight(place: Place) -> torch.Tensor:
    """``W_O`` per head, ``[heads, d_head, d_model]``: a head writes ``z @ W_O[head]`` into the residual stream."""
    return in_out(place.out_proj).unflatten(0, (place.heads, place.d_head))
