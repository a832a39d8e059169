"""Vision transformers: ViT, DeiT, DINOv2, and the two towers of CLIP."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headlens.models.families.base import Family, SiteSpec, StackSpec

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_ATTENTION = SiteSpec("self", "attention", "attention.o_proj")
_CLIP = SiteSpec("self", "self_attn", "self_attn.out_proj")


class ViT(Family):
    """ViT: a picture is a sequence of patches."""

    name = "ViT"
    model_types: tuple[str, ...] = ("vit",)
    stacks = (StackSpec("self", "layers", (_ATTENTION,)),)


class DeiT(ViT):
    """DeiT: ViT with a distillation token."""

    name = "DeiT"
    model_types = ("deit",)


class Dinov2(Family):
    """DINOv2: ViT with scaled residual branches."""

    name = "DINOv2"
    model_types = ("dinov2",)
    stacks = (StackSpec("self", "encoder.layer", (_ATTENTION,)),)


class Clip(Family):
    """CLIP: a text tower (causal) and a vision tower, two stacks that never meet; one of them may be missing."""

    name = "CLIP"
    model_types = ("clip",)
    stacks = (
        StackSpec(
            "text", "text_model.encoder.layers", (SiteSpec("text", "self_attn", "self_attn.out_proj", causal=True),)
        ),
        StackSpec("vision", "vision_model.encoder.layers", (SiteSpec("vision", "self_attn", "self_attn.out_proj"),)),
    )


class ClipTower(Family):
    """One tower of CLIP by itself."""

    name = "CLIP tower"
    model_types = ("clip_text_model", "clip_vision_model")
    stacks = (StackSpec("self", "encoder.layers", (_CLIP,)),)

    def causal(self, model: PreTrainedModel, site: SiteSpec) -> bool:  # noqa: ARG002
        """The text tower is causal."""
        return model.config.model_type == "clip_text_model"
