"""What HeadLens needs to know of a model family: where its heads are. Module names of transformers stand only here.

A family is declared, not programmed: for each stack of blocks a path to the block list, and for each site in it the
paths, inside one block, of the attention module and of the output projection. Head counts are read from the weights,
so a cut model with ragged layers needs nothing special.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

import torch

from headlens.errors import ModelError
from headlens.models.families.cut_modules import MARKS, NoHeads, OwnPairs, become, empty
from headlens.models.families.kept import (
    Kept,
    Slice,
    apply_slices,
    features,
    input_slice,
    output_slices,
    set_numbers,
)
from headlens.models.families.places import Place, SitePlaces, SiteSpec, StackSpec, has, output_weight, submodule
from headlens.models.families.projections import Columns, in_features, in_out, interleaved, out_features, thirds

if TYPE_CHECKING:
    from torch import nn
    from transformers import PreTrainedModel


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
        stacks = [stack for stack in self.stacks if has(root, stack.blocks)]
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
        pairs: tuple[int, ...] | None = getattr(attention, "kv_head_of_head", None)
        kv_heads = 0
        if heads:
            kv_heads = self.kv_heads(attention, model, heads) if pairs is None else max(pairs) + 1
        return Place(block, attention, out_proj, heads, kv_heads, d_head, self.causal(model, site), pairs)

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

    def cached_values(self, place: Place) -> int:
        """How many numbers a KV cache has to keep for one token in this layer: keys and values of every KV head."""
        if not place.heads:
            return MARKS
        columns = self.qkv(place)
        widths = [columns[part].index.shape[1] if part in columns else place.d_head for part in ("k", "v")]
        return place.kv_heads * sum(widths)

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

    def slices(self, place: Place, kept: Kept) -> list[Slice]:
        """What stays of the parameters of a layer that keeps a head.

        Raises:
            ModelError: it is not known which query, key and value belong to a head.
        """
        columns = self.qkv(place)
        if set(columns) != set("qkv"):
            raise ModelError(f"{self.name}: its heads can be switched off but not cut out; use prune --masked")
        owned: dict[nn.Module, set[int]] = {}
        stays: dict[nn.Module, set[int]] = {}
        for part, found in columns.items():
            rows = kept.positions if part == "q" else kept.kv_positions
            owned.setdefault(found.module, set()).update(found.index.flatten().tolist())
            stays.setdefault(found.module, set()).update(found.index[rows].flatten().tolist())
        cut: list[Slice] = []
        for module, mine in owned.items():
            # What belongs to no head stays.
            index = sorted((set(range(out_features(module))) - mine) | stays[module])
            cut += output_slices(module, index)
        return [*cut, input_slice(place.out_proj, features(kept.positions, place.d_head))]

    def take_out(self, place: Place, kept: Kept) -> None:
        """Makes a layer smaller, where it is, to the heads that stay; a layer that keeps none becomes a constant."""
        if not kept.keep:
            empty(place)
            become(place.attention, self.without_heads(place.attention))
            return
        apply_slices(self.slices(place, kept))
        set_numbers(place.attention, kept, place.d_head)
        self.adapt(place.attention, kept)

    def without_heads(self, attention: nn.Module) -> type:  # noqa: ARG002 - for families with more than one kind
        """What stands in front of the class of an attention module that has lost its last head."""
        return NoHeads

    def adapt(self, attention: nn.Module, kept: Kept) -> None:
        """Replaces the class of an attention module whose own code does not run with these heads."""
        if not kept.even:
            attention.kv_head_of_head = kept.reads  # type: ignore[assignment]
            become(attention, OwnPairs)

    def stack_slices(self, sites: Sequence[SitePlaces], kept: Mapping[str, Sequence[Kept]]) -> list[Slice]:  # noqa: ARG002
        """What stays of parameters that belong to the heads of many layers."""
        return []

    def adapt_stacks(self, sites: Sequence[SitePlaces], kept: Mapping[str, Sequence[Kept]]) -> None:
        """What changes in layers of which no head goes, because of those of which some go."""

    def value_weight(self, place: Place) -> torch.Tensor | None:
        """``W_V`` per KV head, ``[kv_heads, d_in, d_head]``, or None where it is not known."""
        columns = self.qkv(place).get("v")
        return None if columns is None else columns.weight

    def value_bias(self, place: Place) -> torch.Tensor | None:
        """``b_V`` per KV head, ``[kv_heads, d_head]``, or None where there is none."""
        columns = self.qkv(place).get("v")
        return None if columns is None else columns.bias


__all__ = [
    "Columns",
    "Family",
    "Kept",
    "Place",
    "SitePlaces",
    "SiteSpec",
    "Slice",
    "StackSpec",
    "in_features",
    "in_out",
    "interleaved",
    "out_features",
    "output_weight",
    "submodule",
    "thirds",
]
