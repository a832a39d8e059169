"""Words of the pages Attention and Switchboard; pure text, so that each can be tested."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from headlens.evaluate import Evaluation
    from headlens.generation import Continuations
    from headlens.tokens import TokenLabel


@dataclass(frozen=True)
class Figure:
    """One figure before and after a switch.

    Attributes:
        title, value: as shown.
        delta: the change with its sign, or None while nothing is off.
        note: the value before and the standard error of the change.
        up_is_good: decides the colour of the change.
        help: what it is.
    """

    title: str
    value: str
    delta: str | None
    note: str
    up_is_good: bool = False
    help: str = ""


def figures(found: Evaluation, *, switched: bool) -> list[Figure]:
    """Loss, perplexity, accuracy and drift as far as they apply; errors are standard errors over examples."""
    out: list[Figure] = []
    loss, accuracy, drift = (found.measured.get(name) for name in ("loss", "accuracy", "drift"))
    if loss is not None:
        out.append(
            Figure(
                "Loss",
                f"{loss.value:.4f}",
                f"{loss.delta:+.4f}" if switched else None,
                _note(f"{loss.baseline:.4f}", loss.delta_sem, 4, switched),
                help="Cross-entropy in nats for each predicted token; lower is better.",
            )
        )
        if not found.task.endswith("classification") and max(loss.value, loss.baseline) < 700:
            before, after = math.exp(loss.baseline), math.exp(loss.value)
            factor = math.exp(loss.delta)
            error = f" ± {factor * loss.delta_sem:.3f}" if math.isfinite(loss.delta_sem) else ""
            out.append(
                Figure(
                    "Perplexity",
                    f"{after:.2f}",
                    f"{after - before:+.2f}" if switched else None,
                    f"before {before:.2f}; × {factor:.3f}{error}" if switched else "all heads on",
                    help="exp(loss): among how many equally likely tokens the model seems to choose.",
                )
            )
    if accuracy is not None:
        out.append(
            Figure(
                "Accuracy",
                f"{accuracy.value:.1%}",
                f"{accuracy.delta:+.1%}" if switched else None,
                _note(f"{accuracy.baseline:.1%}", accuracy.delta_sem, 1, switched, percent=True),
                up_is_good=True,
                help="Share of predictions whose first choice is right.",
            )
        )
    if drift is not None:
        error = f"± {drift.sem:.4f} " if switched and math.isfinite(drift.sem) else ""
        unit = "1 − cosine of the embeddings" if loss is None else "nats for each prediction"
        out.append(
            Figure(
                "Drift" if loss is None else "Drift (KL)",
                f"{drift.value:.4f}",
                None,
                f"{error}{unit}",
                help="How far the output moves from that of the whole model; 0 with all heads on."
                if loss is None
                else "KL divergence of the switched model's prediction from the whole model's; 0 with all heads on.",
            )
        )
    return out


def _note(before: str, error: float, digits: int, switched: bool, *, percent: bool = False) -> str:
    if not switched:
        return "all heads on"
    if not math.isfinite(error):
        return f"before {before}"
    size = f"{100 * error:.{digits}f} points" if percent else f"{error:.{digits}f}"
    return f"before {before}; change ± {size}"


def continuation_sentence(found: Continuations) -> str:
    """Where the two texts part."""
    if found.first_difference is None:
        return f"Both texts are the same, token by token ({len(found.before.steps)} tokens)."
    place = found.first_difference
    steps = [text.steps[place] if place < len(text.steps) else None for text in (found.before, found.after)]
    said = ["the end" if step is None else f"“{step.label.text}” ({step.probability:.0%})" for step in steps]
    return f"The texts part at token {place + 1}: {said[0]} with all heads on, {said[1]} with the heads off."


def pattern_sentence(label: str, pattern: np.ndarray, queries: Sequence[TokenLabel], keys: Sequence[TokenLabel]) -> str:
    """Where a head looks most, and how sharply.

    Args:
        label: the head.
        pattern: its weights ``[query, key]``, rows sum to 1 (or less, for a window).
        queries, keys: token labels of both sides.
    """
    if pattern.shape[1] < 2:
        return f"{label}: there is only one token to look at."
    later = pattern[:, 1:]
    query, key = (int(i) for i in np.unravel_index(int(np.argmax(later)), later.shape))
    largest = float(pattern.max(axis=1).mean())
    return (
        f"{label} looks hardest (apart from the first token) from “{queries[query].text}” at “{keys[key + 1].text}”: "
        f"{later[query, key]:.2f}. The largest weight of a row is {largest:.2f} on average."
    )


def sink_sentence(pattern: np.ndarray) -> str:
    """How much of the attention rests on the first token, and why.

    Args:
        pattern: weights ``[query, key]``; the first query is left out, since a causal one sees nothing else.
    """
    share = float(pattern[1:, 0].mean()) if pattern.shape[0] > 1 else float(pattern[0, 0])
    return (
        f"The first token gets {share:.0%} of this head's attention on average. It is often bright because every row "
        "must sum to 1: a head with nothing to look for parks its attention there (an attention sink). Hide it to see "
        "the rest; hiding changes no weight."
    )


def role_sentence(label: str, role: str | None, title: str, score: float, threshold: float, formula: str) -> str:
    """What a head is called, with the score that earns it the name."""
    if role is None:
        return f"{label} has none of these roles: no score reaches its threshold."
    return f"{label} is called “{title.lower()}”: its score is {score:.2f} (from {threshold:g} on; {formula})."
