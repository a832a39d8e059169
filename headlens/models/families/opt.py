"""OPT: a decoder with separate projections and learned positions."""

from __future__ import annotations

from headlens.models.families.base import Family, SiteSpec, StackSpec


class OPT(Family):
    """OPT; its blocks are under ``decoder`` although there is no encoder."""

    name = "OPT"
    model_types = ("opt",)
    stacks = (StackSpec("self", "decoder.layers", (SiteSpec("self", "self_attn", "self_attn.out_proj", causal=True),)),)
