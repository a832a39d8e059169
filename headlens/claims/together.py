"""Do single effects add up? The effect of several heads at once against the sum of their single effects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from headlens.claims.base import Claim, Figure, Finding, NotMeasurable, Published, Series, Try, Verdict
from headlens.heads import HeadSet
from headlens.redundancy import joint_against_sum
from headlens.significance import Z_95

if TYPE_CHECKING:
    from headlens.claims.context import Context
    from headlens.redundancy import Redundancy

SHARE, LEAST_HEADS, MOST_HEADS = 0.1, 2, 12
NEAR = 0.25
"""A difference of up to this share of the effect (the larger of the two) counts as adding up."""
LEAST, DRAWN, MOST = "least important", "drawn at random", "most important"
_WORDS = {LEAST: "the {} least important", DRAWN: "{} drawn at random", MOST: "the {} most important"}


class Additive(Claim):
    """Three tenths of the heads: the least important, the most important, and one drawn by the seed."""

    name = "additive"
    shares = ("order",)
    why = "Scores are of one head at a time; if effects do not add up, a list of scores does not say what a cut costs."
    textbook = "fails"
    rule = (
        "A tenth of the heads, 2 to 12, three times (least and most important on the score half, and drawn at random "
        "from the others), held-out half, each example paired: joint effect less sum of single effects, with its 95 % "
        "interval. A tenth adds up if the interval lies within a quarter of the effect; it does not if the interval "
        "leaves 0 out and the difference is more than a quarter of the effect. Holds if all three add up, fails if two "
        "or more do not, else mixed. The number is that of the tenth drawn at random."
    )
    published = Published(
        "Not additive: without all three name-mover heads the logit difference falls by only 10 %, since backups "
        "step in",
        "Wang et al. 2022, §3.4",
        "P",
    )

    def passes(self, context: Context) -> float:
        """Each head of the three tenths by itself, and the three at once."""
        return 4 + 3 * size_for(context.heads)

    def check(self, context: Context) -> Finding:
        """See the rule."""
        size = size_for(context.heads)
        if context.heads < 3 * size:
            raise NotMeasurable(f"the model has {context.heads} heads, too few for three sets of {size}")
        context.need_signal()
        sets = tenths(context, size)
        context.phase("single heads of three tenths")
        singles = [HeadSet.of([head]) for off in sets.values() for head in off]
        found = context.measured([*sets.values(), *singles])
        measured = {
            name: joint_against_sum({head: found[HeadSet.of([head])] for head in off}, found[off], unit=context.unit)
            for name, off in sets.items()
        }
        drawn = context.lens.topology.format(sets[DRAWN])
        return additive(measured, context.unit, drawn)


def size_for(heads: int) -> int:
    """A tenth of the heads; no more than can be measured one by one in a minute."""
    return min(MOST_HEADS, max(LEAST_HEADS, round(SHARE * heads)))


def tenths(context: Context, size: int) -> dict[str, HeadSet]:
    """Three sets that share no head."""
    from headlens.pruning.order import order

    ranked = order(context.scores())
    middle = ranked[size:-size]
    chosen = np.random.default_rng(context.seed).choice(len(middle), size, replace=False)
    return {
        LEAST: HeadSet.of(ranked[:size]),
        DRAWN: HeadSet.of(middle[i] for i in chosen),
        MOST: HeadSet.of(ranked[-size:]),
    }


def additive(found: Mapping[str, Redundancy], unit: str, drawn: str = "") -> Finding:
    """The verdict on measured sets, by name."""
    verdicts = [adds_up(each) for each in found.values()]
    verdict: Verdict = "mixed"
    if all(each == "holds" for each in verdicts):
        verdict = "holds"
    elif verdicts.count("fails") >= 2:
        verdict = "fails"
    shown = found[DRAWN]
    error = Z_95 * shown.difference_sem
    parts = [
        f"{_WORDS[name].format(one.heads)} cost {one.sum:+.3g} in sum and {one.joint:+.3g} at once"
        for name, one in found.items()
    ]
    sentence = f"In {unit} on held-out examples: {'; '.join(parts)}."
    names = tuple(found)
    figure = Figure(
        "bars",
        "tenth of the heads",
        f"effect ({unit})",
        (
            Series("sum of single effects", names, *_bars([(one.sum, one.sum_sem) for one in found.values()])),
            Series("all at once", names, *_bars([(one.joint, one.joint_sem) for one in found.values()])),
        ),
    )
    again = Try("Switch the random tenth off", "pages/switchboard.py", {"off": drawn, "method": "ablation"})
    value = shown.difference
    return Finding(verdict, value, value - error, value + error, unit, sentence, figure, again)


def adds_up(found: Redundancy) -> Verdict:
    """One set; ``mixed`` where its error is too large to say."""
    error, size = Z_95 * found.difference_sem, abs(found.difference)
    near = NEAR * max(abs(found.sum), abs(found.joint))
    if not np.isfinite(error):
        return "mixed"
    if size + error <= near:
        return "holds"
    return "fails" if size > max(error, near) else "mixed"


def _bars(values: list[tuple[float, float]]) -> tuple[tuple[float, ...], tuple[float, ...], tuple[float, ...]]:
    return (
        tuple(value for value, _ in values),
        tuple(value - Z_95 * error for value, error in values),
        tuple(value + Z_95 * error for value, error in values),
    )
