"""GPT-NeoX, BLOOM and Falcon: a fused projection ``query_key_value`` that is laid out head by head."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from headlens.errors import ModelError
from headlens.models.families.base import (
    Columns,
    Family,
    Place,
    SitePlaces,
    SiteSpec,
    StackSpec,
    interleaved,
    out_features,
    submodule,
)

if TYPE_CHECKING:
    from torch import nn
    from transformers import PreTrainedModel


class GPTNeoX(Family):
    """GPT-NeoX and Pythia: attention and MLP in parallel, rotary positions on a part of each head."""

    name = "GPT-NeoX"
    model_types = ("gpt_neox",)
    stacks = (StackSpec("self", "layers", (SiteSpec("self", "attention", "attention.dense", causal=True),)),)

    def qkv(self, place: Place) -> dict[str, Columns]:
        """See the base class."""
        return interleaved(submodule(place.attention, "query_key_value"), place.heads)


class Bloom(Family):
    """BLOOM: ALiBi instead of positions, never sdpa."""

    name = "BLOOM"
    model_types = ("bloom",)
    stacks = (StackSpec("self", "h", (SiteSpec("self", "self_attention", "self_attention.dense", causal=True),)),)

    def sites(self, model: PreTrainedModel) -> tuple[SitePlaces, ...]:
        """See the base class."""
        if model.config.pretraining_tp > 1 and model.config.slow_but_exact:
            raise ModelError("BLOOM with slow_but_exact does not call its output projection: set slow_but_exact=False")
        return super().sites(model)

    def qkv(self, place: Place) -> dict[str, Columns]:
        """See the base class."""
        return interleaved(submodule(place.attention, "query_key_value"), place.heads)


class Falcon(Family):
    """Falcon: one KV head (7B), KV groups (40B and later) or one KV head for each query head (RW)."""

    name = "Falcon"
    model_types = ("falcon",)
    stacks = (StackSpec("self", "h", (SiteSpec("self", "self_attention", "self_attention.dense", causal=True),)),)

    def kv_heads(self, attention: nn.Module, model: PreTrainedModel, heads: int) -> int:  # noqa: ARG002
        """See the base class."""
        return int(attention.num_kv_heads)  # type: ignore[arg-type]

    def qkv(self, place: Place) -> dict[str, Columns]:
        """Group by group: the queries of a group, then its key, then its value; one group for MQA."""
        module = submodule(place.attention, "query_key_value")
        index = torch.arange(out_features(module)).reshape(place.kv_heads, -1, place.d_head)  # [group, q.. + 2, d_head]
        query = index[:, :-2].reshape(place.heads, place.d_head)
        return {"q": Columns(module, query), "k": Columns(module, index[:, -2]), "v": Columns(module, index[:, -1])}
