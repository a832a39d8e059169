"""The families that HeadLens knows. A new one is a file here, a line in ``FAMILIES`` and a test."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headlens.models.families.albert import Albert
from headlens.models.families.bart import Bart, Marian, Pegasus, Whisper
from headlens.models.families.base import Columns, Family, Place, SitePlaces
from headlens.models.families.bert import Bert, DistilBert, Electra, ModernBert, Roberta
from headlens.models.families.deepseek import DeepSeek
from headlens.models.families.gpt2 import GPT2
from headlens.models.families.gpt_neo import GPTNeo
from headlens.models.families.interleaved import Bloom, Falcon, GPTNeoX
from headlens.models.families.llama import Llama, Olmo2, Phi, Phi3
from headlens.models.families.opt import OPT
from headlens.models.families.t5 import T5
from headlens.models.families.vision import Clip, ClipTower, DeiT, Dinov2, ViT

if TYPE_CHECKING:
    from transformers import PreTrainedModel

FAMILIES: tuple[Family, ...] = (
    GPT2(),
    GPTNeo(),
    GPTNeoX(),
    OPT(),
    Bloom(),
    Falcon(),
    Llama(),
    Olmo2(),
    Phi(),
    Phi3(),
    DeepSeek(),
    Bert(),
    Roberta(),
    DistilBert(),
    Electra(),
    Albert(),
    ModernBert(),
    T5(),
    Bart(),
    Pegasus(),
    Marian(),
    Whisper(),
    ViT(),
    DeiT(),
    Dinov2(),
    Clip(),
    ClipTower(),
)


def family_of(model: PreTrainedModel) -> Family:
    """The family adapter for ``model``; raises ModelError when there is none."""
    model_type = getattr(model.config, "model_type", "")
    for family in FAMILIES:
        if model_type in family.model_types:
            return family
    from headlens.models.structure import by_structure

    return by_structure(model)


__all__ = ["FAMILIES", "Columns", "Family", "Place", "SitePlaces", "family_of"]
