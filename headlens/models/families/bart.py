"""BART-shaped encoder-decoders: BART, mBART, Pegasus, Marian and Whisper."""

from __future__ import annotations

from headlens.models.families.base import Family, SiteSpec, StackSpec

_STACKS = (
    StackSpec("enc", "encoder.layers", (SiteSpec("enc", "self_attn", "self_attn.out_proj"),)),
    StackSpec(
        "dec",
        "decoder.layers",
        (
            SiteSpec("dec", "self_attn", "self_attn.out_proj", causal=True),
            SiteSpec("cross", "encoder_attn", "encoder_attn.out_proj"),
        ),
    ),
)


class Bart(Family):
    """BART, mBART and others with the same modules: M2M-100 (NLLB) and Blenderbot."""

    name = "BART"
    model_types: tuple[str, ...] = ("bart", "mbart", "m2m_100", "blenderbot", "blenderbot-small")
    stacks = _STACKS


class Pegasus(Bart):
    """Pegasus (fixed positions)."""

    name = "Pegasus"
    model_types = ("pegasus",)


class Marian(Bart):
    """Marian translation models (fixed positions)."""

    name = "Marian"
    model_types = ("marian",)


class Whisper(Bart):
    """Whisper: the encoder reads sound."""

    name = "Whisper"
    model_types = ("whisper",)
