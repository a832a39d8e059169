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
            raise absent(name, self.evaluation.task)
        return found


def absent(name: str, task: str) -> HeadlensError:
    """What to say where models of a task have no such figure."""
    return HeadlensError(f"there is no {name} for {task} models here; take another metric")


def check_figure(name: str, task: str, *, bleu: bool) -> None:
    """Whether a curve has a figure, before hours are spent on it; raises HeadlensError.

    Args:
        name: of ``FIGURES``.
        task: of the model.
        bleu: whether the curve is about BLEU.
    """
    if name == "bleu" and task == "seq2seq" and not bleu:
        raise HeadlensError("a budget of BLEU takes a curve of BLEU; add --metric bleu")
    here = {
        "drift": True,
        "bleu": bleu,
        "perplexity": task != "embedding" and not task.endswith("classification"),
    }
    if not here.get(name, task != "embedding"):
        raise absent(name, task)


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
