"""Llama-shaped decoders: q, k, v, o projections, grouped key/value heads, head width free of the model width."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from headlens.models.families.base import (
    Columns,
    Family,
    Kept,
    Place,
    SiteSpec,
    Slice,
    StackSpec,
    out_features,
    submodule,
)
from headlens.models.families.cut_modules import become
from headlens.models.families.kept import features, input_slice, output_slices

if TYPE_CHECKING:
    from torch import Tensor, nn


class Llama(Family):
    """Llama, SmolLM, Mistral, Qwen2, Qwen3, Gemma and alike (GQA, MQA, decoupled ``head_dim``)."""

    name = "Llama-like"
    model_types = (
        "llama",
        "mistral",
        "mixtral",
        "qwen2",
        "qwen3",
        "gemma",
        "gemma2",
        "gemma3_text",
        "olmo",
        "granite",
        "smollm3",
    )
    stacks = (StackSpec("self", "layers", (SiteSpec("self", "self_attn", "self_attn.o_proj", causal=True),)),)


class SomeHeads:
    """A norm over all heads together that hands out some of them: it needs the others for its mean."""

    head_labels: tuple[int, ...]
    d_head: int

    def forward(self, hidden_states: Tensor) -> Tensor:
        """``[..., all heads * d_head]`` to ``[..., heads * d_head]``."""
        normal = super().forward(hidden_states)  # type: ignore[misc]
        return normal.index_select(-1, torch.tensor(features(self.head_labels, self.d_head), device=normal.device))


class Olmo2(Llama):
    """OLMo 2: queries, and keys, are normalised over all heads of the layer together.

    A head's query is therefore part of every other head's, so the query and key projections stay whole when heads are
    cut out; values and output projection get smaller.
    """

    name = "OLMo 2"
    model_types = ("olmo2",)
    note = (
        "Queries and keys are normalised over all heads together: cutting a head out makes its value and output "
        "matrices go, its query and key matrices stay."
    )

    def qkv(self, place: Place) -> dict[str, Columns]:
        """See the base class."""
        found = {}
        for part, count in (("q", place.heads), ("k", place.kv_heads), ("v", place.kv_heads)):
            module = submodule(place.attention, f"{part}_proj")
            norm = getattr(place.attention, f"{part}_norm", None)
            index = torch.arange(out_features(module)).reshape(-1, place.d_head)
            found[part] = Columns(module, index[list(getattr(norm, "head_labels", range(count)))])
        return found

    def slices(self, place: Place, kept: Kept) -> list[Slice]:
        """See the base class."""
        value = submodule(place.attention, "v_proj")
        return [
            *output_slices(value, features(kept.kv_positions, place.d_head)),
            input_slice(place.out_proj, features(kept.positions, place.d_head)),
        ]

    def adapt(self, attention: Any, kept: Kept) -> None:
        """See the base class."""
        super().adapt(attention, kept)
        for norm, labels in ((attention.q_norm, kept.keep), (attention.k_norm, kept.groups)):
            norm.head_labels, norm.d_head = labels, attention.head_dim
            become(norm, SomeHeads)


class Phi(Family):
    """Phi-1, Phi-1.5 and Phi-2: the output projection is called ``dense``."""

    name = "Phi"
    model_types = ("phi",)
    stacks = (StackSpec("self", "layers", (SiteSpec("self", "self_attn", "self_attn.dense", causal=True),)),)


class OwnHeadCount:
    """A model's config as one layer sees it: with the number of heads that this layer has."""

    def __init__(self, config: Any, heads: int) -> None:
        self.config, self.num_attention_heads = config, heads

    def __getattr__(self, name: str) -> Any:
        if name == "config":  # a copy that is being made has none yet
            raise AttributeError(name)
        return getattr(self.config, name)


class Phi3(Llama):
    """Phi-3: one fused projection with all queries, then all keys, then all values."""

    name = "Phi-3"
    model_types = ("phi3",)

    def qkv(self, place: Place) -> dict[str, Columns]:
        """See the base class."""
        module = submodule(place.attention, "qkv_proj")
        index = torch.arange((place.heads + 2 * place.kv_heads) * place.d_head).reshape(-1, place.d_head)
        query, key, value = index.split([place.heads, place.kv_heads, place.kv_heads])
        return {"q": Columns(module, query), "k": Columns(module, key), "v": Columns(module, value)}

    def adapt(self, attention: nn.Module, kept: Kept) -> None:
        """Its code takes the number of queries from the config."""
        super().adapt(attention, kept)
        attention.config = OwnHeadCount(attention.config, len(kept.keep))  # type: ignore[assignment]
