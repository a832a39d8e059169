"""Answering one question about the exact scores with few exact measurements: the gradient first, then only the heads
whose interval crosses the cut.

The gradient method gives a first-order estimate ``e`` of every head's exact score ``s``. How wrong it is, is measured
on heads that are drawn at random and measured exactly whatever their estimate: with ``w = |e| + median |e|`` the
interval of a head is ``e +- q w``, where ``q`` is the ``ceil((m + 1)(1 - risk))``-th smallest of the m values
``|s - e| / w`` (split conformal prediction: Papadopoulos et al. 2002; Lei et al. 2018). Heads whose interval decides
the question are settled; the others are measured, nearest to the cut first, until none is left.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from headlens.errors import HeadlensError
from headlens.importance.base import Request
from headlens.importance.gradient import GradientMethod
from headlens.importance.question import Question, nearest_first, settled
from headlens.importance.score import score
from headlens.importance.some_heads import SomeHeads
from headlens.lens import Lens
from headlens.scores import HeadScores

RISK = 0.02
"""A head that is not measured is outside its interval with at most this probability."""
AT_LEAST = math.ceil(1 / RISK) - 1
"""Fewer calibration heads cannot support an interval at that risk."""
CALIBRATION_SHARE = 0.04
GRADIENT_FORWARDS = 3
"""A forward and a backward pass cost about this many forwards."""


@dataclass(frozen=True)
class Answer:
    """The answer and what it rests on. Arrays are in (site, layer, column) order, as ``HeadScores.columns``.

    Attributes:
        question: what was asked.
        estimate: the gradient method's scores (signed).
        exact: exact scores, NaN where a head was not measured.
        sem: standard errors over examples of the exact scores, NaN likewise.
        low, high: the intervals; where a head was measured both are its exact score.
        chosen: the heads that answer the question, bool.
        calibration: which heads were drawn at random, bool.
        alone, wrong: how many of those the estimate alone would have settled, and how many of these wrongly.
        baseline: the loss with every head on.
        forwards, all_forwards: head-forwards over the data that this took (the gradient counted as 3), and that a full
            sweep takes.
        seconds, cached: time of the computation; heads that came from the store.
    """

    question: Question
    estimate: HeadScores
    exact: np.ndarray
    sem: np.ndarray
    low: np.ndarray
    high: np.ndarray
    chosen: np.ndarray
    calibration: np.ndarray
    alone: int
    wrong: int
    baseline: float
    forwards: int
    all_forwards: int
    seconds: float
    cached: int

    @property
    def measured(self) -> int:
        """How many heads were measured exactly."""
        return int(np.isfinite(self.exact).sum())

    @property
    def labels(self) -> list[str]:
        """The heads that answer the question, the extreme ones first."""
        scores = np.where(np.isfinite(self.exact), self.exact, self.estimate.flat())
        order = np.argsort(-scores if self.question.end == "top" else scores, kind="stable")
        topology, unit = self.estimate.topology, self.estimate.unit
        labels = [topology.label(*column, unit) for column in self.estimate.columns()]
        return [labels[i] for i in order.tolist() if self.chosen[i]]

    def saved(self) -> str:
        """One sentence: what the question cost."""
        heads = len(self.exact)
        spared = self.all_forwards - self.forwards
        return (
            f"Measured exactly: {self.measured} of {heads} heads. Forward passes over the data: about "
            f"{self.forwards:,} (the gradient counted as {GRADIENT_FORWARDS}) instead of {self.all_forwards:,}, "
            + (f"{spared:,} saved." if spared > 0 else "so nothing was saved.")
        )

    def error_risk(self) -> str:
        """One or two sentences: how the answer can be wrong."""
        others = len(self.exact) - self.measured
        if not others:
            return "Every head was measured, so this is the answer of the full sweep."
        drawn = int(self.calibration.sum())
        unseen = len(self.exact) - drawn
        return (
            f"Error risk: of the {unseen} heads that were not drawn at random at most {RISK * unseen:.1f} are expected "
            f"outside their interval ({RISK:.0%} each, on average over the draw of {drawn} calibration heads); one "
            f"that was not measured ({others} were not) makes the answer wrong only if it also crosses the cut. "
            f"Of the {drawn} calibration heads the estimate alone would have settled {self.alone}, "
            f"{self.wrong} of them wrongly. The answer is about these examples; other text has its own."
        )


def answer(lens: Lens, request: Request, question: Question) -> Answer:
    """The heads that a full exact sweep would name, from as few exact measurements as the estimate allows.

    Raises:
        HeadlensError: another metric than the loss or another ablation than zero, which the gradient does not
            estimate; a question that asks for no head or all of them.
    """
    if request.metric.name != "loss" or request.ablation != "zero":
        raise HeadlensError("--question goes with --metric loss and --ablation zero, which the gradient estimates")
    start = time.perf_counter()
    estimate = score(lens, GradientMethod(), replace(request, signed=True))
    guess = estimate.flat()
    if not np.isfinite(guess).all():
        raise HeadlensError(f"some gradients are not finite (the model computes in {lens.dtype}); try --dtype float32")
    count = question.count(len(guess))
    some = SomeHeads(lens, request, estimate.columns())
    top = count if question.end == "top" else len(guess) - count
    found = decide(guess, some.scores, top, request.seed, some.swept())
    return Answer(
        question=question,
        estimate=estimate,
        exact=found.exact,
        sem=np.where(found.known, some.sem, np.nan),
        low=found.low,
        high=found.high,
        chosen=found.above if question.end == "top" else ~found.above,
        calibration=found.drawn,
        alone=found.alone,
        wrong=found.wrong,
        baseline=some.baseline_value,
        forwards=int(found.known.sum()) + some.rounds + 1 + GRADIENT_FORWARDS,
        all_forwards=len(guess) + 2,
        seconds=time.perf_counter() - start,
        cached=some.cached,
    )


@dataclass(frozen=True)
class Decision:
    """Which heads are above the cut, and what is known of each; arrays ``[heads]``, as in :class:`Answer`."""

    exact: np.ndarray
    low: np.ndarray
    high: np.ndarray
    above: np.ndarray
    drawn: np.ndarray
    alone: int
    wrong: int

    @property
    def known(self) -> np.ndarray:
        """Which heads were measured."""
        return np.isfinite(self.exact)


def decide(
    guess: np.ndarray,
    measure: Callable[[np.ndarray], np.ndarray],
    top: int,
    seed: int,
    free: np.ndarray | None = None,
) -> Decision:
    """The ``top`` largest of values that are estimated by ``guess`` ``[heads]``.

    Args:
        guess: estimates.
        measure: gives the exact values of the heads in a mask ``[heads]``, NaN elsewhere.
        top: how many are asked for.
        seed: draws the calibration heads.
        free: heads whose exact values cost nothing, bool ``[heads]``.
    """
    heads = len(guess)
    drawn = np.zeros(heads, dtype=bool)
    wanted = min(heads, max(AT_LEAST, math.ceil(CALIBRATION_SHARE * heads)))
    drawn[np.random.default_rng(seed).permutation(heads)[:wanted]] = True
    exact = measure(drawn if free is None else drawn | free)
    width = _widths(guess, exact, drawn)
    while True:
        known = np.isfinite(exact)
        low, high = np.where(known, exact, guess - width), np.where(known, exact, guess + width)
        inside, outside = settled(low, high, top)
        open_ = ~inside & ~outside & ~known
        if not open_.any():
            break
        # Half of them: what is learnt of the cut often settles the rest. A round costs one pass for the prefixes.
        chosen = np.zeros(heads, dtype=bool)
        chosen[nearest_first(low, high, top, open_)[: max(AT_LEAST, math.ceil(open_.sum() / 2))]] = True
        exact = np.where(chosen, measure(chosen), exact)
    above = np.zeros(heads, dtype=bool)
    above[_largest(np.where(known, exact, guess), inside, top)] = True
    alone, wrong = _check(guess, exact, drawn, (low, high), above)
    return Decision(exact, low, high, above, drawn, alone, wrong)


def _scale(guess: np.ndarray) -> np.ndarray:
    return np.maximum(np.abs(guess) + np.median(np.abs(guess)), np.finfo(float).tiny)


def _widths(guess: np.ndarray, exact: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    """Half the width of every head's interval; infinite where there are too few calibration heads, ``[heads]``."""
    scale = _scale(guess)
    ratios = np.sort(np.abs(exact - guess)[drawn] / scale[drawn])
    rank = math.ceil((len(ratios) + 1) * (1 - RISK))
    return scale * (ratios[rank - 1] if rank <= len(ratios) else np.inf)


def _largest(values: np.ndarray, inside: np.ndarray, top: int) -> Sequence[int]:
    """Positions of the ``top`` heads: those that are certainly in, then the largest of the others."""
    order = np.lexsort((np.arange(len(values)), -values, ~inside))
    return order[:top].tolist()


def _check(
    guess: np.ndarray, exact: np.ndarray, drawn: np.ndarray, bounds: tuple[np.ndarray, np.ndarray], above: np.ndarray
) -> tuple[int, int]:
    """How many calibration heads the others' intervals would have settled, and how many of these on the wrong side."""
    alone = wrong = 0
    scale = _scale(guess)
    for head in np.flatnonzero(drawn):
        others = drawn.copy()
        others[head] = False
        ratios = np.sort((np.abs(exact - guess) / scale)[others])
        rank = min(len(ratios), math.ceil((len(ratios) + 1) * (1 - RISK)))
        width = scale[head] * ratios[rank - 1]
        lower, upper = (bound.copy() for bound in bounds)
        lower[head], upper[head] = guess[head] - width, guess[head] + width
        inside, outside = settled(lower, upper, int(above.sum()))
        if inside[head] or outside[head]:
            alone += 1
            wrong += bool(inside[head]) != bool(above[head])
    return alone, wrong
