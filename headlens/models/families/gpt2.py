"""GPT-2: fused query/key/value projection, Conv1D weights."""

from __future__ import annotations

import torch

from headlens.models.families.base import Family, Place, SiteSpec, StackSpec, in_out


class GPT2(Family):
    """GPT-2 and DistilGPT-2: ``attn.c_attn`` holds q, k, v side by side, each ``heads * d_head`` wide."""

    name = "GPT-2"
    model_types = ("gpt2",)
    stacks = (StackSpec("self", "h", (SiteSpec("self", "attn", "attn.c_proj", causal=True),)),)

    def value_weight(self, place: Place) -> torch.Tensor:
        """See the base class."""
        fused = in_out(place.attention.c_attn)  # type: ignore[arg-type]
        value = fused[:, -place.heads * place.d_head :]
        return value.unflatten(1, (place.heads, place.d_head)).transpose(0, 1)
