"""Sentences that follow the data, whichever way they fall."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headlens.lab.arms import Tally
from headlens.lab.statistics import Decision, compare, fisher, rate


@dataclass(frozen=True)
class Verdict:
    """One comparison in words.

    Attributes:
        first, second: names of the arms.
        decision: whether the first arm's success rate is higher, lower, or not decided.
        p: two-sided p of Fisher's exact test, for those who want it; the decision does not use it.
        sentence: with the numbers.
    """

    first: str
    second: str
    decision: Decision
    p: float
    sentence: str


def _numbers(first: Tally, second: Tally) -> str:
    return f"{_start(first.arm.title)}: {first.rate.words()}. {_start(second.arm.title)}: {second.rate.words()}. "


def _start(text: str) -> str:
    return text[:1].upper() + text[1:]


def undecided(first: Tally, second: Tally) -> str:
    """Why nothing is concluded."""
    few = min(first.rate.runs, second.rate.runs)
    if few == 0:
        return "Not decided: not all of these have been run."
    if few == 1:
        return "Not decided: no interval from one seed."
    return f"The intervals overlap: not decided with this few seeds ({few})."


def keep_or_learn(pruned: Tally, scratch: Tally) -> Verdict:
    """The main comparison: keeping few heads of many against learning with the few."""
    decision = compare(pruned.rate, scratch.rate)
    small, large = scratch.arm.template.architecture.heads, pruned.arm.template.architecture.heads
    said = {
        "higher": f"On this task it is easier to keep {small} heads of {large} than to learn with {small}.",
        "lower": f"On this task it is easier to learn with {small} heads than to keep {small} of {large}.",
    }.get(decision, undecided(pruned, scratch))
    return _verdict(pruned, scratch, decision, said)


def against_control(arm: Tally, pruned: Tally) -> Verdict:
    """Whether a control's arm reaches what pruning reaches."""
    decision = compare(arm.rate, pruned.rate)
    said = {
        "higher": "So this does better than pruning without retraining.",
        "lower": "So this alone does not make up the difference to pruning.",
    }.get(decision, undecided(arm, pruned))
    return _verdict(arm, pruned, decision, said)


def chosen_or_random(pruned: Tally, random: Tally) -> Verdict:
    """Whether it matters which heads are kept."""
    decision = compare(pruned.rate, random.rate)
    said = {
        "higher": "Which heads are kept matters.",
        "lower": "The greedy choice is worse than a random one, which should not happen: distrust this run.",
    }.get(decision, undecided(pruned, random))
    return _verdict(pruned, random, decision, said)


def _verdict(first: Tally, second: Tally, decision: Decision, said: str) -> Verdict:
    sentence = _numbers(first, second) + said
    return Verdict(first.arm.name, second.arm.name, decision, fisher(first.rate, second.rate), sentence)


def kept_what_was_learnt(large: Tally, pruned: Tally) -> str:
    """Pruning alone: of the large models that had learnt the task, how many still know it with few heads.

    Args:
        large, pruned: the same runs before and after pruning.
    """
    pairs = list(zip(large.losses, pruned.losses, strict=True))
    learnt = [after < pruned.arm.limit for before, after in pairs if before < large.arm.limit]
    if not learnt:
        return ""
    spec = pruned.arm.template
    what = f"Of the runs with {_heads(large)} heads that had learnt the task, pruned to {spec.prune_to}"
    return f"{what} still know it: {rate(learnt).words()}."


def success_against_heads(tallies: Sequence[Tally]) -> str:
    """The initialisation lottery: how success from scratch goes with the number of heads.

    Args:
        tallies: arms from scratch that differ in their number of heads alone, in any order. Those with fewer heads than
            distances are left out: they lack more than luck.
    """
    able = [t for t in tallies if t.rate.runs and _heads(t) >= len(t.arm.template.task.distances)]
    ordered = sorted(able, key=_heads)
    if len(ordered) < 2:
        return ""
    parts = [f"{_heads(t)} heads {t.rate.successes}/{t.rate.runs}" for t in ordered]
    fewest, most = ordered[0], ordered[-1]
    decision = compare(most.rate, fewest.rate)
    said = {
        "higher": "More heads make success more frequent: each seed is a draw, and more heads are more tickets. "
        "That fits the hypothesis of an initialisation lottery; it does not prove it.",
        "lower": "More heads make success less frequent here, against the hypothesis of an initialisation lottery.",
    }.get(decision, undecided(most, fewest))
    return f"Success from scratch: {', '.join(parts)}. {said}"


def _heads(tally: Tally) -> int:
    return tally.arm.template.architecture.heads
