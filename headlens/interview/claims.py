"""The claims that the bank refers to, and the hook through which their live verdicts come.

A claim is an executable check of one sentence on the current model. Whoever runs the checks registers a function with
:func:`set_source`; it is called in the session's own thread, so it may look at what that session has chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

CLAIMS: Mapping[str, str] = MappingProxyType(
    {
        "share-removable": "A sizeable share of heads can be removed with a small loss.",
        "single-head-layers": "Some layers do with a single head.",
        "methods-agree": "Magnitude, gradient and ablation rankings are roughly alike.",
        "beats-chance": "The ranking beats chance on held-out text.",
        "replicates": "Results replicate across evaluation sets.",
        "independent-at-init": "Heads are not linearly dependent at initialisation.",
        "smaller-and-faster": "Removed heads make the model smaller and faster; masked ones do not.",
        "recovers": "Brief fine-tuning recovers quality.",
        "scratch-worse": "Training with fewer heads from scratch is worse.",
        "additive": "Single effects add up to the joint effect.",
        "roles-go-last": "Heads have roles, and specialised heads go last.",
        "cross-most-sensitive": "Cross-attention is the most sensitive.",
        "hidden-skill": "Perplexity can be fine while a skill is gone.",
        "zero-mean-agree": "Zero and mean ablation agree.",
        "sharing-keeps": "Sharing keys and values keeps quality where removing does not.",
        "prunable-during-training": "Heads become prunable during training.",
    }
)

_source: Callable[[str], str | None] | None = None


def set_source(source: Callable[[str], str | None] | None) -> None:
    """Registers who knows the verdicts: a function from a claim's id to one line, or None while it is not measured."""
    global _source
    _source = source


def claim_line(claim: str) -> str | None:
    """The claim's verdict and number on the current model in one line; None where it has not been measured."""
    if claim not in CLAIMS:
        raise KeyError(claim)
    return None if _source is None else _source(claim)
