"""Claims about rankings: between methods, between texts, between ways of switching off."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from headlens.agreement import CLOSE, Agreement, agreement
from headlens.claims.base import Claim, Figure, Finding, NotMeasurable, Published, Series, Try, Verdict, against
from headlens.claims.costs import SWEEP
from headlens.errors import HeadlensError
from headlens.replication import Replication, replication, sets_for

if TYPE_CHECKING:
    from headlens.claims.context import Context
    from headlens.scores import HeadScores

UNIT = "rank correlation"
_UNDECIDED: Verdict = "mixed"
_HOW = (
    "Spearman's rank correlation with a 95 % bootstrap interval over heads. Two rankings are alike if the whole "
    "interval "
    f"is at least {CLOSE}, not alike if it is below, else undecided. "
)


def alike(pair: Agreement) -> Verdict:
    """The verdict on one pair of rankings."""
    return against(pair.spearman.low, pair.spearman.high, CLOSE)


def by_pairs(pairs: tuple[Agreement, ...], again: Try) -> Finding:
    """Holds if all pairs are alike, fails if none is and none is undecided, else mixed; the number is the lowest."""
    found: list[Verdict] = [alike(pair) for pair in pairs]
    verdict: Verdict = found[0] if len(set(found)) == 1 else _UNDECIDED
    weakest = min(pairs, key=lambda pair: _or(pair.spearman.value))
    rho = weakest.spearman
    listed = "; ".join(f"{pair.first} and {pair.second} {pair.spearman}" for pair in pairs)
    sentence = f"Rank correlations over {weakest.heads} heads: {listed}."
    return Finding(verdict, rho.value, rho.low, rho.high, UNIT, sentence, _bars(pairs), again)


def _or(value: float) -> float:
    return -np.inf if np.isnan(value) else value


def _bars(pairs: tuple[Agreement, ...]) -> Figure:
    series = Series(
        "Spearman's rho",
        tuple(f"{pair.first} / {pair.second}" for pair in pairs),
        tuple(pair.spearman.value for pair in pairs),
        tuple(pair.spearman.low for pair in pairs),
        tuple(pair.spearman.high for pair in pairs),
    )
    return Figure("bars", "pair of rankings", "rank correlation", (series,), CLOSE)


class MethodsAgree(Claim):
    """Magnitude, gradient and ablation."""

    name = "methods-agree"
    shares = ("order", "ablation")
    why = "If cheap scores ranked heads as the exact one does, nobody would need the exact one."
    rule = _HOW + "Holds if all three pairs are alike, fails if none is and none is undecided, else mixed."
    published = Published(
        "Scores differ: first-order patching agrees with exact patching (rho .998 on one task), direct effect with "
        "ablation only at .45 to .70",
        "arrays of public notebooks and of Rushing & Nanda 2024",
        "D",
    )

    def passes(self, context: Context) -> float:  # noqa: ARG002
        """Only what it shares."""
        return 0

    def check(self, context: Context) -> Finding:
        """See the rule."""
        context.need_several_heads()
        if not context.metric.differentiable:
            raise NotMeasurable("drift has no gradient at all heads on, so there is no gradient score to compare")
        context.need_signal()
        scores = {name: context.scores(name) for name in ("magnitude", "gradient", "ablation")}
        return methods_agree(scores, context.seed)


def methods_agree(scores: Mapping[str, HeadScores], seed: int = 0) -> Finding:
    """The verdict on scores by method."""
    return by_pairs(agreement(scores, seed=seed), Try("Compare two methods", "app.py", {"method": "gradient"}))


class ZeroMeanAgree(Claim):
    """What takes the place of a head's output."""

    name = "zero-mean-agree"
    shares = ("ablation",)
    why = "Zero is far from what later layers expect; a ranking that hangs on it says little about the head."
    rule = _HOW + "Holds if the two rankings by exact ablation are alike, fails if they are not, else mixed."
    published = Published(
        "Zero is arbitrary and can overstate what a head does, since later parts use its mean as a bias",
        "Wang et al. 2022, §2.2",
        "P",
    )

    def passes(self, context: Context) -> float:
        """A second sweep, with means."""
        return 1 + SWEEP * context.heads

    def check(self, context: Context) -> Finding:
        """See the rule."""
        context.need_several_heads()
        context.need_signal("ablation")
        scores = {
            "zero": context.scores("ablation"),
            "mean": context.scores("ablation", "mean"),
        }
        return zero_mean_agree(scores, context.seed)


def zero_mean_agree(scores: Mapping[str, HeadScores], seed: int = 0) -> Finding:
    """The verdict on scores by ablation."""
    again = Try("Switch to mean ablation", "app.py", {"method": "ablation", "ablation": "mean"})
    return by_pairs(agreement(scores, seed=seed), again)


class Replicates(Claim):
    """The same ranking on other texts."""

    name = "replicates"
    why = "A head that matters on one text only must not be called unimportant in general."
    rule = (
        _HOW
        + "Every pair of the built-in sets (score halves, first-order scores) is compared, of a model that knows one "
        "set its two halves; the number is the least alike pair. Holds if even that is alike, fails if no pair is, "
        "else mixed. The sentence says how high noise alone would let it be."
    )
    published = Published(
        "Single-head effects correlate between domains at r = .56 (translation) and .68 (MNLI), but masks chosen with "
        "other fine-tuning seeds agree little (alpha .18 to .33)",
        "Michel et al. 2019, §3.4; Prasanna et al. 2020",
        "N",
    )

    def passes(self, context: Context) -> float:  # noqa: ARG002
        """The gradient on each set."""
        return 3 * 7

    def check(self, context: Context) -> Finding:
        """See the rule."""
        context.need_several_heads()
        scores = self._scores(context)
        try:
            found = replication(scores, seed=context.seed)
        except HeadlensError as error:  # fewer than two sets on which the model knows anything
            raise NotMeasurable(str(error)) from error
        return replicates(found)

    def _scores(self, context: Context) -> dict[str, HeadScores]:
        from headlens.data.select import load_data

        try:
            chosen = sets_for(context.lens)
        except HeadlensError as error:
            raise NotMeasurable(f"there is only one set of texts for this model: {error}") from error
        found = {}
        for name, (spec, split) in chosen.items():
            loaded = load_data(spec, task=context.lens.task, split=split, limit=context.limit, seed=context.seed)
            context.phase(f"scores on {name}")
            found[name] = context.scores_on(context.encoded(loaded))
        return found


def replicates(found: Replication) -> Finding:
    """The verdict on compared sets."""
    pairs = tuple(pair.agreement for pair in found.pairs)
    verdicts: set[Verdict] = {alike(pair) for pair in pairs}
    verdict: Verdict = verdicts.pop() if len(verdicts) == 1 else _UNDECIDED
    rho = found.weakest.rho
    rows = {name: [np.nan] * len(found.names) for name in found.names}
    for (i, first), (j, second) in combinations(enumerate(found.names), 2):
        value = next(p.spearman.value for p in pairs if (p.first, p.second) == (first, second))
        rows[first][j] = rows[second][i] = value
    means = tuple(float(np.nanmean(row)) for row in rows.values())
    figure = Figure("bars", "set", "mean correlation", (Series("sets", found.names, means),), CLOSE)
    again = Try("Compare the rankings", "pages/families.py", {"replicate_kind": "texts"})
    return Finding(verdict, rho.value, rho.low, rho.high, UNIT, found.sentence(), figure, again)
