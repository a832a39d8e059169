"""Llama-shaped decoders: q, k, v, o projections, grouped key/value heads, head width free of the model width."""

from __future__ import annotations

import torch

from headlens.models.families.base import Columns, Family, Place, SiteSpec, StackSpec, submodule


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
        "olmo2",
        "granite",
        "smollm3",
    )
    stacks = (StackSpec("self", "layers", (SiteSpec("self", "self_attn", "self_attn.o_proj", causal=True),)),)


class Phi(Family):
    """Phi-1, Phi-1.5 and Phi-2: the output projection is called ``dense``."""

    name = "Phi"
    model_types = ("phi",)
    stacks = (StackSpec("self", "layers", (SiteSpec("self", "self_attn", "self_attn.dense", causal=True),)),)


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
