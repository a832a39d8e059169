"""What a probe found: each skill with all heads on and with some off, and what can be said of the difference."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from headlens.probes.pairs import CHANCE
from headlens.significance import ALPHA, Change, Mean, Share, change, holm, mean, share

if TYPE_CHECKING:
    from headlens.evaluate import Evaluation
    from headlens.probes.skills import Skill

Verdict = Literal["not known", "lost", "worse", "better", "no change"]
SMALL_RISE = 0.1
"""A rise of the perplexity below this share is told as small."""


@dataclass(frozen=True)
class SkillResult:
    """One skill on one model.

    Attributes:
        skill: what was asked.
        before, after: logit difference right - foil, nats, float64 ``[pairs]``: all heads on, and with the switch.
        dropped: pairs that could not be used, by reason.
        loss_before, loss_after: -log p of the right answer, nats, float64 ``[pairs]``, likewise; empty where unknown.
    """

    skill: Skill
    before: np.ndarray
    after: np.ndarray
    dropped: Mapping[str, int] = field(default_factory=dict)
    loss_before: np.ndarray = field(default_factory=lambda: np.empty(0))
    loss_after: np.ndarray = field(default_factory=lambda: np.empty(0))

    @property
    def pairs(self) -> int:
        """Number of usable pairs."""
        return len(self.before)

    @cached_property
    def accuracy_before(self) -> Share:
        """Share of pairs with a larger logit for the right answer, all heads on; exact 95 % interval."""
        return share(int((self.before > 0).sum()), self.pairs)

    @cached_property
    def accuracy(self) -> Share:
        """The same with the switch."""
        return share(int((self.after > 0).sum()), self.pairs)

    @cached_property
    def accuracy_change(self) -> Change:
        """Paired change of the accuracy by the switch."""
        return change(self.before > 0, self.after > 0)

    @cached_property
    def difference_before(self) -> Mean:
        """Mean logit difference, nats, all heads on."""
        return mean(self.before)

    @cached_property
    def difference(self) -> Mean:
        """The same with the switch."""
        return mean(self.after)

    @cached_property
    def difference_change(self) -> Mean:
        """Paired change of the logit difference by the switch."""
        return mean(self.after - self.before)

    @cached_property
    def loss_mean_before(self) -> Mean:
        """Mean loss of the right answer, nats, all heads on."""
        return mean(self.loss_before)

    @cached_property
    def loss_mean(self) -> Mean:
        """The same with the switch."""
        return mean(self.loss_after)

    @cached_property
    def loss_change(self) -> Mean:
        """Paired change of the loss of the right answer by the switch; positive: it gets worse."""
        return mean(self.loss_after - self.loss_before)

    @property
    def known(self) -> bool:
        """Whether the model has the skill with all heads on: its accuracy's interval lies above chance."""
        return self.accuracy_before.low > CHANCE

    def verdict(self, p_value: float) -> Verdict:
        """What the switch does to the skill, by rules fixed in advance.

        Args:
            p_value: of the exact McNemar test, corrected for the number of skills.

        Returns:
            ``not known`` (with all heads on the model cannot be told from guessing), ``lost`` (fewer right answers, and
            what is left cannot be told from guessing), ``worse``, ``better``, or ``no change`` (none that could be told
            from chance).
        """
        if not self.known:
            return "not known"
        if p_value > ALPHA or math.isnan(p_value):
            return "no change"
        if self.accuracy_change.value > 0:
            return "better"
        return "lost" if self.accuracy.low <= CHANCE else "worse"


@dataclass(frozen=True)
class ProbeResult:
    """What a head set does to a model's skills.

    Attributes:
        model: the model's name.
        off: HEADS that are off.
        ablation: what took the place of their ``z``.
        skills: the ones that could be asked about.
        skipped: the others, with the reason.
        seed: drew the pairs that are made.
    """

    model: str
    off: str
    ablation: str
    skills: tuple[SkillResult, ...]
    skipped: Mapping[str, str]
    seed: int = 0

    @cached_property
    def p_values(self) -> dict[str, float]:
        """Exact McNemar test of each skill that the model has, corrected for their number (Holm)."""
        found = [each.accuracy_change.p_value if each.known else float("nan") for each in self.skills]
        names = [each.skill.name for each in self.skills]
        return dict(zip(names, holm(found).tolist(), strict=True))

    @cached_property
    def verdicts(self) -> dict[str, Verdict]:
        """What the switch does to each skill; see :meth:`SkillResult.verdict`."""
        return {each.skill.name: each.verdict(self.p_values[each.skill.name]) for each in self.skills}

    def of(self, verdict: Verdict) -> list[SkillResult]:
        """Skills with this verdict, those that fall most first."""
        found = [each for each in self.skills if self.verdicts[each.skill.name] == verdict]
        return sorted(found, key=lambda each: each.accuracy_change.value)

    def sentences(self, evaluation: Evaluation | None = None) -> list[str]:
        """What was found, in plain sentences.

        Args:
            evaluation: of the same switch on running text, for the perplexity; None leaves it out.
        """
        if not self.skills:
            return [f"No skill could be asked about: {'; '.join(self.skipped.values())}."]
        if self.off == "none":
            return _with_all_on(self)
        return [_main_sentence(self, evaluation), *_unknown(self)]

    def to_json(self) -> dict[str, Any]:
        """Everything, JSON-ready."""
        rows = [
            {
                "skill": each.skill.name,
                "title": each.skill.title,
                "pairs": each.pairs,
                "dropped": dict(each.dropped),
                "chance": CHANCE,
                "accuracy_baseline": _share(each.accuracy_before),
                "accuracy": _share(each.accuracy),
                "accuracy_change": _change(each.accuracy_change),
                "p_value": self.p_values[each.skill.name],
                "difference_baseline": vars(each.difference_before),
                "difference": vars(each.difference),
                "difference_change": vars(each.difference_change),
                "loss_baseline": vars(each.loss_mean_before),
                "loss": vars(each.loss_mean),
                "loss_change": vars(each.loss_change),
                "verdict": self.verdicts[each.skill.name],
            }
            for each in self.skills
        ]
        return {
            "model": self.model,
            "off": self.off,
            "ablation": self.ablation,
            "seed": self.seed,
            "skills": rows,
            "skipped": dict(self.skipped),
        }


def _share(found: Share) -> dict[str, Any]:
    return {"value": found.value, "low": found.low, "high": found.high, "right": found.right}


def _change(found: Change) -> dict[str, Any]:
    return {"value": found.value, "low": found.low, "high": found.high, "lost": found.lost, "gained": found.gained}


def _with_all_on(result: ProbeResult) -> list[str]:
    known = [each for each in result.skills if each.known]
    if not known:
        return [f"{result.model} has none of the {len(result.skills)} skills: it cannot be told from guessing in any."]
    listed = ", ".join(f"{each.skill.ability} ({percent(each.accuracy_before.value)})" for each in known)
    return [f"With all heads on {result.model} can {listed}; guessing gives {percent(CHANCE)}.", *_unknown(result)]


def _unknown(result: ProbeResult) -> list[str]:
    unknown = [each for each in result.skills if not each.known]
    if not unknown or len(unknown) == len(result.skills):
        return []
    listed = ", ".join(f"{each.skill.ability} ({percent(each.accuracy_before.value)})" for each in unknown)
    return [f"What it cannot do with all heads on either: {listed}."]


def _main_sentence(result: ProbeResult, evaluation: Evaluation | None) -> str:
    lost, worse, better = (result.of(verdict) for verdict in ("lost", "worse", "better"))
    parts = []
    if lost:
        parts.append("it can no longer " + " or ".join(_fall(each) for each in lost))
    if worse:
        parts.append("it is worse at some: " + ", ".join(_fall(each) for each in worse))
    if better:
        parts.append("it is better at some: " + ", ".join(_fall(each) for each in better))
    harmed = bool(lost or worse)
    known = [each for each in result.skills if each.known]
    if not parts and not known:
        return f"{result.model} has none of the skills with all heads on, so nothing can be lost."
    if not parts:
        most = max(known, key=lambda each: abs(each.accuracy_change.value))
        parts.append(f"no change of a skill can be told from chance (largest: {_fall(most)})")
    start, small = _perplexity(evaluation)
    text = "; ".join(parts)
    if start:
        text = f"{start}{', but ' if harmed and small else ', and '}{text}"
    return f"{text[0].upper()}{text[1:]}. Guessing gives {percent(CHANCE)}."


def _fall(each: SkillResult) -> str:
    return f"{each.skill.ability}: {percent(each.accuracy_before.value)} -> {percent(each.accuracy.value)}"


def _perplexity(evaluation: Evaluation | None) -> tuple[str, bool]:
    """``perplexity 12.3 -> 12.5``, and whether the rise is small."""
    found = None if evaluation is None else evaluation.to_json()
    if found is None or found["perplexity"] is None or found["perplexity_baseline"] is None:
        return "", False
    before, after = found["perplexity_baseline"], found["perplexity"]
    return f"perplexity {before:.3g} -> {after:.3g}", after < (1 + SMALL_RISE) * before


def percent(value: float) -> str:
    """``54 %``."""
    return f"{100 * value:.0f} %"
