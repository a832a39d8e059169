"""Llama-shaped decoders: q, k, v, o projections, grouped key/value heads, head width free of the model width."""

from __future__ import annotations

from headlens.models.families.base import Family, SiteSpec, StackSpec


class Llama(Family):
    """Llama, SmolLM, Mistral, Qwen2, Qwen3, Gemma and alike (GQA, MQA, decoupled ``head_dim``)."""

    name = "Llama-like"
    model_types = (
        "llama",
        "mistral",
        "qwen2",
        "qwen3",
        "gemma",
        "gemma2",
        "phi3",
        "olmo",
        "olmo2",
        "granite",
        "smollm3",
    )
    stacks = (StackSpec("self", "layers", (SiteSpec("self", "self_attn", "self_attn.o_proj", causal=True),)),)
