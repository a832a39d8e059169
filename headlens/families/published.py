"""What others found, by kind of model: the number that stands beside ours. Other tasks, sizes and budgets than ours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from headlens.claims.base import Published

Kind = Literal["encoder", "encoder-decoder", "decoder", "grouped", "latent", "vision"]
KINDS: Mapping[Kind, str] = {
    "encoder": "encoder",
    "encoder-decoder": "encoder-decoder",
    "decoder": "decoder",
    "grouped": "decoder, grouped keys and values",
    "latent": "decoder, latent keys and values",
    "vision": "vision",
}


@dataclass(frozen=True)
class Counterpart:
    """A published finding about one kind of model.

    Attributes:
        published: the finding with source and grade.
        value: its number in our measure's unit, for the figure; None where it is of another kind.
    """

    published: Published
    value: float | None = None


_MICHEL, _BANSAL = "Michel et al. 2019", "Bansal et al. 2023"
PUBLISHED: Mapping[tuple[str, Kind], Counterpart] = {
    ("removable", "encoder"): Counterpart(
        Published("40 % of the heads of BERT, fine-tuned on MNLI, without noticeable loss", f"{_MICHEL}, §4", "N"), 0.4
    ),
    ("removable", "encoder-decoder"): Counterpart(
        Published("20 % of the heads of a large translation model without noticeable loss", f"{_MICHEL}, §4", "N"), 0.2
    ),
    ("removable", "decoder"): Counterpart(
        Published("about 70 % of the heads of OPT-66B with minimal decline on 14 tasks", _BANSAL, "A"), 0.7
    ),
    ("removable", "grouped"): Counterpart(
        Published(
            "more than 12 % of the heads of six LLMs are inactive: zero them all at once and MMLU stays within 1 %",
            "Sandoval-Segura et al. 2025, arXiv 2504.03889",
            "A",
        ),
        0.12,
    ),
    ("single-head", "encoder"): Counterpart(
        Published("12 of 12 layers of BERT lose nothing significant", f"{_MICHEL}, Table 3", "N"), 1.0
    ),
    ("single-head", "encoder-decoder"): Counterpart(
        Published(
            "14 of 18 layers of a translation model lose nothing significant; the last cross-attention layer loses "
            "13.56 BLEU",
            f"{_MICHEL}, Table 2",
            "N",
        ),
        14 / 18,
    ),
    ("methods", "decoder"): Counterpart(
        Published(
            "first-order patching ranks GPT-2's heads as exact patching does (rho .998 on one task); direct effect and "
            "ablation only at .45 to .70",
            "arrays of public notebooks and of Rushing & Nanda 2024",
            "D",
        )
    ),
    ("texts", "encoder"): Counterpart(
        Published("effects of single heads of BERT on MNLI matched and mismatched: r = .68", f"{_MICHEL}, §3.4", "N"),
        0.68,
    ),
    ("texts", "encoder-decoder"): Counterpart(
        Published("effects of single heads on two translation test sets: r = .56", f"{_MICHEL}, §3.4", "N"), 0.56
    ),
    ("cross", "encoder-decoder"): Counterpart(
        Published(
            "above 60 % pruned, cross-attention collapses, while both kinds of self-attention keep about 30 BLEU with "
            "20 % left",
            f"{_MICHEL}, §5",
            "N",
        )
    ),
}
"""By measure and kind of model; what is not here was not found for that kind."""


def kind_of(family: str, task: str, *, cross: bool, grouped: bool) -> Kind:
    """The kind of a model.

    Args:
        family: its ``model_type``.
        task: its task.
        cross: whether it has cross-attention.
        grouped: whether query heads share key/value heads.
    """
    if cross:
        return "encoder-decoder"
    if task == "image-classification":
        return "vision"
    if family.startswith("deepseek"):
        return "latent"
    if task == "causal-lm":
        return "grouped" if grouped else "decoder"
    return "encoder"
