"""GPT-Neo: global and local attention in turn, never sdpa."""

from __future__ import annotations

from headlens.models.families.base import Family, SiteSpec, StackSpec


class GPTNeo(Family):
    """GPT-Neo; local layers see a window of the last tokens only."""

    name = "GPT-Neo"
    model_types = ("gpt_neo",)
    stacks = (StackSpec("self", "h", (SiteSpec("self", "attn.attention", "attn.attention.out_proj", causal=True),)),)
