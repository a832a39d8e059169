"""The app's words for the importance methods, one entry each; known before torch is imported, unlike the methods."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True)
class MethodWords:
    """What the app says of a method of :data:`headlens.importance.METHODS`.

    Attributes:
        line: what it is, in one line below the choice.
        unit: of its scores, when loss is measured.
        signed: whether a score has a direction, so that a head can be said to hurt.
        control: whether it is there to be beaten only, and left out of comparisons.
    """

    line: str
    unit: str
    signed: bool = False
    control: bool = False


METHOD_WORDS: Mapping[str, MethodWords] = MappingProxyType(
    {
        "ablation": MethodWords(
            "Exact: what the loss does when one head is off. Slowest, and the reference.", "nats", signed=True
        ),
        "gradient": MethodWords(
            "First-order estimate for all heads in one backward pass (Michel et al.).", "nats", signed=True
        ),
        "magnitude": MethodWords(
            "Size of the head's output weights. Needs no text, and often says little.", "weight norm"
        ),
        "magnitude-ov": MethodWords("Size of the head's read-to-write map. Needs no text.", "weight norm"),
        "output-norm": MethodWords(
            "How much the head writes into the residual stream, on average.", "length in the residual stream"
        ),
        "fisher": MethodWords("Mean squared gradient of the head's gate.", "nats²"),
        "confidence": MethodWords("Average of the head's largest attention weight (Voita et al.).", "attention weight"),
        "random": MethodWords("A control that knows nothing: what any ranking has to beat.", "no unit", control=True),
    }
)
SIGNED = tuple(name for name, words in METHOD_WORDS.items() if words.signed)
COMPARED = tuple(name for name, words in METHOD_WORDS.items() if not words.control)
"""What cards and comparisons show."""


def unit_of(method: str, metric: str, task: str) -> str:
    """Unit of a method's scores."""
    if method == "ablation" and metric == "drift":
        return "1 - cosine" if task == "embedding" else "nats of KL"
    return METHOD_WORDS[method].unit if method in METHOD_WORDS else ""
