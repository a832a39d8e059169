"""What HeadLens needs to know of a model family: where its heads are. The only place with names of transformers modules.

A family is declared, not programmed: for each stack of blocks a path to the block list, and for each site in it the
paths, inside one block, of the attention module and of the output projection. Head counts are read from the weights,
so a cut model with ragged layers needs nothing special.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from headlens.errors import ModelError

if TYPE_CHECKING:
    from torch import nn
    from transformers import PreTrainedModel


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
    """

    block: nn.Module
    attention: nn.Module
    out_proj: nn.Module
    heads: int
    kv_heads: int
    d_head: int
    causal: bool


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


class Family:
    """One model family. Subclasses set the class attributes and override only what differs.

    Attributes:
        name: family name as shown, for example ``"GPT-2"``.
        model_types: ``config.model_type`` values that it covers.
        stacks: where the blocks and sites are.
        head_dim_attributes: attributes of the attention module that may hold the width of a head's ``z``.
        note: one line that users should know (shared weights, no KV heads, ...), or empty.
    """

    name: str = ""
    model_types: tuple[str, ...] = ()
    stacks: tuple[StackSpec, ...] = ()
    head_dim_attributes: tuple[str, ...] = ("head_dim", "attention_head_size", "key_value_proj_dim")
    note: str = ""

    def root(self, model: PreTrainedModel) -> nn.Module:
        """The module from which the stacks' paths start."""
        return model.base_model

    def sites(self, model: PreTrainedModel) -> tuple[SitePlaces, ...]:
        """All sites of ``model``, each with its layers in call order."""
        found: list[SitePlaces] = []
        for stack in self.stacks:
            blocks = self.blocks(self.root(model), stack)
            for site in stack.sites:
                layers = tuple(self.place(model, block, site) for block in blocks)
                found.append(SitePlaces(site.name, stack.name, layers))
        return tuple(found)

    def blocks(self, root: nn.Module, stack: StackSpec) -> Sequence[nn.Module]:
        """The blocks of a stack in call order (a module may come up more than once: shared weights)."""
        modules = submodule(root, stack.blocks)
        return [modules[i] for i in range(len(modules))]  # type: ignore[index, arg-type]

    def place(self, model: PreTrainedModel, block: nn.Module, site: SiteSpec) -> Place:
        """Describes one layer of one site."""
        attention = submodule(block, site.attention)
        out_proj = submodule(block, site.out_proj)
        d_head = self.d_head(attention, model)
        width = in_features(out_proj)
        if d_head < 1 or width % d_head:
            raise ModelError(
                f"{type(model).__name__}: {site.out_proj} of width {width} does not hold heads of {d_head}"
            )
        heads = width // d_head
        return Place(
            block, attention, out_proj, heads, self.kv_heads(attention, model, heads), d_head, self.causal(model, site)
        )

    def causal(self, model: PreTrainedModel, site: SiteSpec) -> bool:  # noqa: ARG002 - for families that decide by config
        """Whether the site's attention is causal in this model."""
        return site.causal

    def d_head(self, attention: nn.Module, model: PreTrainedModel) -> int:
        """Width of one head's ``z``."""
        for name in self.head_dim_attributes:
            value = getattr(attention, name, None)
            if isinstance(value, int):
                return value
        raise ModelError(f"{type(model).__name__}: no head width found in {type(attention).__name__}")

    def kv_heads(self, attention: nn.Module, model: PreTrainedModel, heads: int) -> int:  # noqa: ARG002
        """Number of key/value heads; the default is one for each query head, or ``heads / num_key_value_groups``."""
        groups = getattr(attention, "num_key_value_groups", 1)
        return max(1, heads // groups)

    def value_weight(self, place: Place) -> torch.Tensor | None:
        """``W_V`` per KV head, ``[kv_heads, d_in, d_head]``, or None where the family has no such matrix."""
        for name in ("v_proj", "value", "v", "v_lin"):
            module = getattr(place.attention, name, None)
            if module is not None:
                weight = in_out(module)
                return weight.unflatten(1, (place.kv_heads, -1)).transpose(0, 1)
        return None


def submodule(module: nn.Module, path: str) -> nn.Module:
    """``module.get_submodule`` with a ModelError that names the missing part."""
    try:
        return module.get_submodule(path)
    except AttributeError as error:
        raise ModelError(f"{type(module).__name__} has no {path!r}: this version of its class is not known") from error


def in_features(projection: nn.Module) -> int:
    """Input width of a Linear or of GPT-2's Conv1D."""
    if hasattr(projection, "in_features"):
        return int(projection.in_features)  # type: ignore[arg-type]
    return int(projection.weight.shape[0])  # type: ignore[union-attr, index]


def in_out(projection: nn.Module) -> torch.Tensor:
    """The projection's matrix as ``[input, output]`` (Linear stores the transpose, Conv1D does not)."""
    weight: torch.Tensor = projection.weight  # type: ignore[assignment]
    return weight.T if hasattr(projection, "in_features") else weight


def output_weight(place: Place) -> torch.Tensor:
    """``W_O`` per head, ``[heads, d_head, d_model]``: a head writes ``z @ W_O[head]`` into the residual stream."""
    return in_out(place.out_proj).unflatten(0, (place.heads, place.d_head))
