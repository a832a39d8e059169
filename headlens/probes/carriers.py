"""Which single heads carry a skill, and whether it is redundant: every head off in turn, on the skill's pairs.

The rules are fixed in advance, for all heads of the model at once:

* A head *carries* a skill if fewer pairs are right with it alone off: exact McNemar test, one-sided, p <= 0.05 after
  Holm's correction over all heads.
* A head *supports* it if the logit difference falls (paired t test, one-sided, corrected likewise).
* A skill that the model has is *carried by single heads* if one carries it; *redundant* if no head alone can cost more
  than half of what lies between the model and guessing; *undecided* if the pairs are too few to say either.

All intervals hold for all heads together (Bonferroni), so they are still right for a head that was picked because it
looked largest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from headlens.errors import HeadlensError
from headlens.importance import METHODS, Raw, Request
from headlens.importance.base import empty
from headlens.importance.score import from_raw
from headlens.probes.effects import Effect, effects
from headlens.probes.pairs import CHANCE
from headlens.probes.result import percent
from headlens.probes.skills import Skill, find_skills
from headlens.probes.sweep import LOGIT_DIFFERENCE, PairSweep
from headlens.significance import Share, share

if TYPE_CHECKING:
    import pandas as pd

    from headlens.heads import Unit
    from headlens.lens import Lens
    from headlens.scores import HeadScores
    from headlens.store import Store
    from headlens.switches import Ablation

Verdict = Literal["not known", "carried by single heads", "redundant", "undecided"]


@dataclass(frozen=True)
class Carriers:
    """Who carries one skill of a model.

    Attributes:
        model: the model's name.
        skill: what was asked.
        pairs: number of usable pairs.
        accuracy: with all heads on, exact 95 % interval.
        difference: mean logit difference with all heads on, nats.
        effects: of every head, largest fall first.
        scores: the same as head scores: the fall of the logit difference, with its reliability.
        ablation, unit: how heads were switched off.
    """

    model: str
    skill: Skill
    pairs: int
    accuracy: Share
    difference: float
    effects: tuple[Effect, ...]
    scores: HeadScores
    ablation: str
    unit: str

    @property
    def known(self) -> bool:
        """Whether the model has the skill with all heads on."""
        return self.accuracy.low > CHANCE

    @property
    def carrying(self) -> tuple[Effect, ...]:
        """Heads without which fewer answers are right, largest loss first; none for a skill that is not known."""
        found = [effect for effect in self.effects if effect.carries and self.known]
        return tuple(sorted(found, key=lambda effect: effect.accuracy))

    @property
    def supporting(self) -> tuple[Effect, ...]:
        """Heads without which the logit difference falls, largest fall first; none for a skill that is not known."""
        return tuple(effect for effect in self.effects if effect.supports and self.known)

    @property
    def margin(self) -> float:
        """Half of what lies between the accuracy and chance: a head that can cost no more is not needed alone."""
        return (self.accuracy.value - CHANCE) / 2

    @property
    def verdict(self) -> Verdict:
        """See the module."""
        if not self.known:
            return "not known"
        if self.carrying:
            return "carried by single heads"
        return "redundant" if all(effect.loss_high <= self.margin for effect in self.effects) else "undecided"

    def sentence(self) -> str:
        """What was found, in a plain sentence."""
        heads = f"{len(self.effects)} {'heads' if self.unit == 'head' else 'KV groups'}"
        start = f"{self.model} can {self.skill.ability} ({percent(self.accuracy.value)} of {self.pairs} pairs)"
        if self.verdict == "not known":
            return f"{self.model} cannot {self.skill.ability}: {percent(self.accuracy.value)}, guessing gives 50 %."
        if self.verdict == "carried by single heads":
            shown = ", ".join(
                f"{e.label} ({percent(self.accuracy.value)} -> {percent(e.accuracy)})" for e in self.carrying[:5]
            )
            more = f" and {len(self.carrying) - 5} more" if len(self.carrying) > 5 else ""
            number = "one head carries" if len(self.carrying) == 1 else f"{len(self.carrying)} heads each carry"
            return f"{start}, and {number} it: {shown}{more}, of {heads}."
        worst = max(self.effects, key=lambda effect: (effect.lost - effect.gained, effect.fall))
        cost = f"{worst.label} costs most, {percent((worst.lost - worst.gained) / self.pairs)} of the pairs"
        if worst.lost <= worst.gained:
            cost = "none costs a pair"
        if self.verdict == "redundant":
            return (
                f"{start}, and no single one of {heads} is needed for it: {cost}, and none can cost more than "
                f"{percent(max(effect.loss_high for effect in self.effects))} (95 %, all heads together)."
            )
        return f"{start}; {cost}, too few to say whether one of {heads} is needed (more pairs would tell)."

    def to_frame(self) -> pd.DataFrame:
        """One row a head, largest fall first: the fields of :class:`Effect`, ``carries`` and ``supports``."""
        import pandas as pd

        rows = [{**vars(effect), "carries": effect.carries, "supports": effect.supports} for effect in self.effects]
        return pd.DataFrame(rows)

    def to_json(self) -> dict[str, Any]:
        """The summary, JSON-ready; the heads that carry or support with all their figures."""
        return {
            "skill": self.skill.name,
            "pairs": self.pairs,
            "accuracy": {"value": self.accuracy.value, "low": self.accuracy.low, "high": self.accuracy.high},
            "difference": self.difference,
            "verdict": self.verdict,
            "carrying": [vars(effect) for effect in self.carrying],
            "supporting": [effect.label for effect in self.supporting],
            "reliability": self.scores.reliability,
            "sentence": self.sentence(),
        }


def carriers(
    lens: Lens,
    skill: str | Skill,
    *,
    ablation: Ablation = "zero",
    unit: Unit = "head",
    limit: int | None = None,
    seed: int = 0,
    store: Store | None = None,
    resume: bool = True,
    on_progress: Callable[[int, int], None] | None = None,
) -> Carriers:
    """Switches every head off in turn and asks for one skill; see the module for the rules.

    Args:
        lens: the model.
        skill: its name, or a skill of one's own.
        ablation: what replaces ``z``.
        unit: single query heads, or whole KV groups.
        limit: only so many pairs.
        seed: draws the pairs that are made, and the partners of ``resample``.
        store, resume: where finished layers are kept, and whether to take them from there.
        on_progress: called with (done, total) head-pair steps; may raise to cancel.

    Raises:
        HeadlensError: an unknown skill, or one without a usable pair for this model.
    """
    (chosen,) = find_skills(lens, [skill])
    pairs = chosen.data(lens, limit=limit, seed=seed)
    if not len(pairs):
        reasons = ", ".join(sorted(pairs.dropped)) or "it has no pairs"
        raise HeadlensError(f"no pair of {chosen.name} can be used with {lens.name} ({reasons}); choose another skill")
    sweep = PairSweep(
        lens, pairs, ablation=ablation, unit=unit, seed=seed, store=store, resume=resume, on_progress=on_progress
    )
    before = sweep.baseline().numerator
    falls = empty(lens, unit, len(pairs))
    cached = 0
    for found in sweep.units():
        falls[found.site][:, found.layer, list(found.columns)] = found.effect
        cached += found.cached
    ones = np.ones(len(pairs))
    raw = Raw(falls, dict.fromkeys(falls, ones), baseline=float(before.mean()), seconds=sweep.seconds, cached=cached)
    request = Request(LOGIT_DIFFERENCE, pairs.data, ablation, unit, seed=seed)
    scores = from_raw(lens, METHODS["ablation"], request, raw)
    places = scores.columns()
    flat = np.stack([falls[site][:, layer, column] for site, layer, column in places], 1)
    labels = [lens.topology.label(*place, unit) for place in places]
    return Carriers(
        model=lens.name,
        skill=chosen,
        pairs=len(pairs),
        accuracy=share(int((before > 0).sum()), len(pairs)),
        difference=float(before.mean()),
        effects=effects(before, flat, labels, places),
        scores=scores,
        ablation=ablation,
        unit=unit,
    )


def by_skill(found: Sequence[Carriers]) -> Mapping[str, HeadScores]:
    """Scores of every head by skill, of the skills that the model has: for comparing them with one another."""
    return {each.skill.name: each.scores for each in found if each.known}
