"""What HeadLens needs to know of a model family: where its heads are. Module names of transformers stand only here.

A family is declared, not programmed: for each stack of blocks a path to the block list, and for each site in it the
paths, inside one block, of the attention module and of the output projection. Head counts are read from the weights,
so a cut model with ragged layers needs nothing special.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
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
class Columns:
    """What each head owns of a projection's output: ``index`` ``[heads, width]`` numbers its output features."""

    module: nn.Module
    index: torch.Tensor

    @property
    def weight(self) -> torch.Tensor:
        """Matrix of each head, ``[heads, d_in, width]``: the head gets ``x @ weight[head] + bias[head]``."""
        return in_out(self.module)[:, self.index.to(in_out(self.module).device)].transpose(0, 1)

    @property
    def bias(self) -> torch.Tensor | None:
        """Bias of each head, ``[heads, width]``, or None."""
        bias: torch.Tensor | None = getattr(self.module, "bias", None)
        return None if bias is None else bias[self.index.to(bias.device)]


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
        projections: names that the query, key and value projections may have in the attention module.
        note: one line that users should know (shared weights, no KV heads, ...), or empty.
    """

    name: str = ""
    model_types: tuple[str, ...] = ()
    stacks: tuple[StackSpec, ...] = ()
    head_dim_attributes: tuple[str, ...] = ("head_dim", "attention_head_size", "head_size", "key_value_proj_dim")
    projections: Mapping[str, tuple[str, ...]] = MappingProxyType(
        {
            "q": ("q_proj", "query", "q", "q_lin"),
            "k": ("k_proj", "key", "k", "k_lin"),
            "v": ("v_proj", "value", "v", "v_lin"),
        }
    )
    note: str = ""

    def root(self, model: PreTrainedModel) -> nn.Module:
        """The module from which the stacks' paths start."""
        return model.base_model

    def sites(self, model: PreTrainedModel) -> tuple[SitePlaces, ...]:
        """All sites of ``model``, each with its layers in call order.

        A model that was built with only one of the family's stacks (an encoder or a decoder alone) has one site,
        ``self``.

        Raises:
            ModelError: the modules are not where this family has them, or the model has sites that it does not know.
        """
        root = self.root(model)
        stacks = [stack for stack in self.stacks if _has(root, stack.blocks)]
        if not stacks:
            paths = " or ".join(stack.blocks for stack in self.stacks)
            raise ModelError(f"{type(model).__name__} has no {paths}: this version of its class is not known")
        names = {site.name for stack in stacks for site in stack.sites}
        if getattr(model.config, "add_cross_attention", False) and "cross" not in names:
            raise ModelError(
                f"{type(model).__name__} was built with cross-attention, which is not known for {self.name}"
            )
        if len(stacks) < len(self.stacks):
            # Without an encoder a decoder's cross-attention is never called.
            (stack,) = stacks[:1]
            stacks = [replace(stack, sites=(replace(stack.sites[0], name="self"),))]
        found: list[SitePlaces] = []
        for stack in stacks:
            blocks = self.blocks(root, stack)
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

    def qkv(self, place: Place) -> Mapping[str, Columns]:
        """Which output features of which projections belong to each head: ``q``, ``k`` and ``v``.

        ``q`` has a row for each query head, ``k`` and ``v`` one for each KV head. Empty where the family has no such
        matrices or they are not known.
        """
        found = {}
        for part, names in self.projections.items():
            module = next((m for n in names if (m := getattr(place.attention, n, None)) is not None), None)
            if module is None:
                return {}
            heads = place.heads if part == "q" else place.kv_heads
            found[part] = Columns(module, torch.arange(out_features(module)).reshape(heads, -1))
        return found

    def value_weight(self, place: Place) -> torch.Tensor | None:
        """``W_V`` per KV head, ``[kv_heads, d_in, d_head]``, or None where it is not known."""
        columns = self.qkv(place).get("v")
        return None if columns is None else columns.weight

    def value_bias(self, place: Place) -> torch.Tensor | None:
        """``b_V`` per KV head, ``[kv_heads, d_head]``, or None where there is none."""
        columns = self.qkv(place).get("v")
        return None if columns is None else columns.bias


def thirds(module: nn.Module, heads: int) -> dict[str, Columns]:
    """A fused projection that holds q, k and v of all heads one after the other."""
    index = torch.arange(out_features(module)).reshape(3, heads, -1)
    return {part: Columns(module, index[i]) for i, part in enumerate("qkv")}


def interleaved(module: nn.Module, heads: int) -> dict[str, Columns]:
    """A fused projection that holds q, k and v of head 0, then those of head 1, ..."""
    index = torch.arange(out_features(module)).reshape(heads, 3, -1)
    return {part: Columns(module, index[:, i]) for i, part in enumerate("qkv")}


def _has(module: nn.Module, path: str) -> bool:
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


def in_features(projection: nn.Module) -> int:
    """Input width of a Linear or of GPT-2's Conv1D."""
    if hasattr(projection, "in_features"):
        return int(projection.in_features)  # type: ignore[arg-type]
    return int(projection.weight.shape[0])  # type: ignore[union-attr, index]


def out_features(projection: nn.Module) -> int:
    """Output width of a Linear or of GPT-2's Conv1D."""
    return int(in_out(projection).shape[1])


def in_out(projection: nn.Module) -> torch.Tensor:
    """The projection's matrix as ``[input, output]`` (Linear stores the transpose, Conv1D does not)."""
    weight: torch.Tensor = projection.weight  # type: ignore[assignment]
    return weight.T if hasattr(projection, "in_features") else weight


def output_weight(place: Place) -> torch.Tensor:
    """``W_O`` per head, ``[heads, d_head, d_model]``: a head writes ``z @ W_O[head]`` into the residual stream."""
    return in_out(place.out_proj).unflatten(0, (place.heads, place.d_head))
