"""The figures of one head set: those of ``evaluate``, and what is derived from them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from headlens.errors import HeadlensError
from headlens.evaluate import Evaluation, Measured
from headlens.heads import HeadSet
from headlens.metrics import ratio

FIGURES = ("loss", "perplexity", "accuracy", "drift", "kl", "bleu")
HIGHER_IS_BETTER = frozenset({"accuracy", "bleu"})


@dataclass(frozen=True)
class SetResult:
    """What one head set does.

    Attributes:
        off: the set.
        evaluation: as :func:`headlens.evaluate.evaluate` gives it.
        perplexity: e to the loss, for language models; its errors by linearisation (delta method).
        bleu: 0 to 100, where it was asked for; its errors by paired bootstrap.
    """

    off: HeadSet
    evaluation: Evaluation
    perplexity: Measured | None = None
    bleu: Measured | None = None

    def figure(self, name: str) -> Measured | None:
        """``loss``, ``perplexity``, ``accuracy``, ``drift``, ``kl`` (drift of a model with logits) or ``bleu``."""
        if name == "perplexity":
            return self.perplexity
        if name == "bleu":
            return self.bleu
        if name == "kl":
            return self.evaluation.measured["drift"] if "loss" in self.evaluation.measured else None
        return self.evaluation.measured.get(name)

    def need(self, name: str) -> Measured:
        """Like :meth:`figure`; raises HeadlensError where the model has no such figure."""
        found = self.figure(name)
        if found is None:
            raise HeadlensError(f"there is no {name} for {self.evaluation.task} models here; take another metric")
        return found


def perplexity(before: np.ndarray, after: np.ndarray, weight: np.ndarray) -> Measured:
    """Perplexity with its standard errors, linearised around the loss (delta method).

    Args:
        before, after: summed NLL of each example ``[examples]``, with all heads on and with some off.
        weight: predictions of each example ``[examples]``.
    """
    losses = [float(ratio(nll[:, None], weight)[0][0]) for nll in (before, after)]
    values = [math.exp(loss) if loss < 700 else math.inf for loss in losses]
    spread = [v * (nll - loss * weight) for v, nll, loss in zip(values, (before, after), losses, strict=True)]
    errors = [float(ratio(part[:, None], weight)[1][0]) for part in (*spread, spread[1] - spread[0])]
    return Measured(values[0], values[1], errors[0], errors[1], errors[2])
