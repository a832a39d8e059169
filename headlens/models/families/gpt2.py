"""GPT-2: fused query/key/value projection, Conv1D weights."""

from __future__ import annotations

from headlens.models.families.base import Columns, Family, Place, SiteSpec, StackSpec, submodule, thirds


class GPT2(Family):
    """GPT-2 and DistilGPT-2: ``attn.c_attn`` holds q, k, v side by side, each ``heads * d_head`` wide."""

    name = "GPT-2"
    model_types = ("gpt2",)
    stacks = (StackSpec("self", "h", (SiteSpec("self", "attn", "attn.c_proj", causal=True),)),)

    def qkv(self, place: Place) -> dict[str, Columns]:
        """See the base class."""
        return thirds(submodule(place.attention, "c_attn"), place.heads)
