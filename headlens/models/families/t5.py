"""T5, mT5 and UMT5: encoder and decoder with relative position bias; no bias terms, unscaled dot products."""

from __future__ import annotations

from headlens.models.families.base import Family, SiteSpec, StackSpec


class T5(Family):
    """T5, mT5, FLAN-T5, UL2 (T5's classes) and UMT5; three sites."""

    name = "T5"
    model_types = ("t5", "mt5", "umt5")
    stacks = (
        StackSpec("enc", "encoder.block", (SiteSpec("enc", "layer.0.SelfAttention", "layer.0.SelfAttention.o"),)),
        StackSpec(
            "dec",
            "decoder.block",
            (
                SiteSpec("dec", "layer.0.SelfAttention", "layer.0.SelfAttention.o", causal=True),
                SiteSpec("cross", "layer.1.EncDecAttention", "layer.1.EncDecAttention.o"),
            ),
        ),
    )
