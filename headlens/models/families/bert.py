"""BERT and its relatives: post-norm encoders with separate query, key and value projections."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headlens.models.families.base import Columns, Family, Place, SiteSpec, StackSpec, submodule, thirds

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_STACKS = (StackSpec("self", "encoder.layer", (SiteSpec("self", "attention.self", "attention.output.dense"),)),)


class Bert(Family):
    """BERT; causal when it was built as a decoder."""

    name = "BERT"
    model_types: tuple[str, ...] = ("bert",)
    stacks = _STACKS

    def causal(self, model: PreTrainedModel, site: SiteSpec) -> bool:  # noqa: ARG002
        """See the base class."""
        return bool(getattr(model.config, "is_decoder", False))


class Roberta(Bert):
    """RoBERTa, XLM-RoBERTa and CamemBERT: BERT's modules, other positions."""

    name = "RoBERTa"
    model_types = ("roberta", "xlm-roberta", "camembert")


class Electra(Bert):
    """ELECTRA: BERT's modules, narrower embeddings."""

    name = "ELECTRA"
    model_types = ("electra",)


class DistilBert(Family):
    """DistilBERT: BERT with half of the layers and other names."""

    name = "DistilBERT"
    model_types = ("distilbert",)
    stacks = (StackSpec("self", "transformer.layer", (SiteSpec("self", "attention", "attention.out_lin"),)),)


class ModernBert(Family):
    """ModernBERT: rotary positions, most layers see a window only, fused projection."""

    name = "ModernBERT"
    model_types = ("modernbert",)
    stacks = (StackSpec("self", "layers", (SiteSpec("self", "attn", "attn.Wo"),)),)

    def qkv(self, place: Place) -> dict[str, Columns]:
        """See the base class."""
        return thirds(submodule(place.attention, "Wqkv"), place.heads)
