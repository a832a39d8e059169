"""The families that HeadLens knows. A new one is a file here, a line in ``FAMILIES`` and a test."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headlens.models.families.base import Family, Place, SitePlaces
from headlens.models.families.gpt2 import GPT2
from headlens.models.families.llama import Llama
from headlens.models.families.t5 import T5

if TYPE_CHECKING:
    from transformers import PreTrainedModel

FAMILIES: tuple[Family, ...] = (GPT2(), Llama(), T5())


def family_of(model: PreTrainedModel) -> Family:
    """The family adapter for ``model``; raises ModelError when there is none."""
    model_type = getattr(model.config, "model_type", "")
    for family in FAMILIES:
        if model_type in family.model_types:
            return family
    from headlens.models.structure import by_structure

    return by_structure(model)


__all__ = ["FAMILIES", "Family", "Place", "SitePlaces", "family_of"]
