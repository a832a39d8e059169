"""DeepSeek-V2 and V3: multi-head latent attention (MLA)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from headlens.models.families.base import Columns, Family, Place, SiteSpec, StackSpec, out_features, submodule

if TYPE_CHECKING:
    from torch import nn
    from transformers import PreTrainedModel


class DeepSeek(Family):
    """DeepSeek-V2 and V3: keys and values of all heads are expanded from one shared latent.

    ``z`` is ``v_head_dim`` wide. ``W_V`` takes the normalised latent (``kv_a_layernorm``), not the residual stream.
    """

    name = "DeepSeek (MLA)"
    model_types = ("deepseek_v2", "deepseek_v3")
    stacks = (StackSpec("self", "layers", (SiteSpec("self", "self_attn", "self_attn.o_proj", causal=True),)),)
    head_dim_attributes = ("v_head_dim",)
    note = (
        "Multi-head latent attention: all heads read one shared latent, so there is no KV head to drop and each query "
        "head is its own KV group; removing heads does not make the cache smaller."
    )

    def kv_heads(self, attention: nn.Module, model: PreTrainedModel, heads: int) -> int:  # noqa: ARG002
        """Each query head is its own group: there is no KV head to group by."""
        return heads

    def cached_values(self, place: Place) -> int:
        """The latent and the one rotary key, whatever the number of heads."""
        if not place.heads:
            return super().cached_values(place)
        return out_features(submodule(place.attention, "kv_a_proj_with_mqa"))

    def qkv(self, place: Place) -> dict[str, Columns]:
        """``k`` is the part without rotary positions; the rotary part is one for all heads."""
        query = getattr(place.attention, "q_b_proj", None)
        query = submodule(place.attention, "q_proj") if query is None else query
        latent = submodule(place.attention, "kv_b_proj")
        index = torch.arange(out_features(latent)).reshape(place.heads, -1)
        return {
            "q": Columns(query, torch.arange(out_features(query)).reshape(place.heads, -1)),
            "k": Columns(latent, index[:, : -place.d_head]),
            "v": Columns(latent, index[:, -place.d_head :]),
        }
