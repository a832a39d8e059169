"""Can the perplexity be fine while a skill is gone?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headlens.claims.base import Claim, Figure, Finding, NotMeasurable, Published, Series, Try, Verdict, percent
from headlens.claims.removable import reach
from headlens.errors import HeadlensError
from headlens.heads import HeadSet
from headlens.significance import ALPHA

if TYPE_CHECKING:
    from headlens.claims.context import Context
    from headlens.probes.result import ProbeResult, SkillResult

PAIRS = 40
COPYING = ("induction", "prefix-matching")
ORDER, COPY = "the least important heads that fit the budget", "the copying heads"


@dataclass(frozen=True)
class Candidate:
    """A head set that might hide a loss.

    Attributes:
        rise: of the held-out loss, nats.
        probed: what it does to skills.
    """

    rise: float
    probed: ProbeResult


class HiddenSkill(Claim):
    """Two head sets that are chosen without looking at any skill."""

    name = "hidden-skill"
    shares = ("order", "curve")
    why = "Whoever looks at the perplexity alone does not notice what a cut model cannot do any more."
    rule = (
        "Two head sets: the largest step of the ranked order whose held-out loss rises by at most 0.1 nats (about 10 % "
        "of the perplexity), and all heads with a copying role (induction, prefix matching). Sets that cost more do "
        "not "
        f"count. Each is asked up to {PAIRS} minimal pairs of every skill that the model has with all heads on. "
        "Holds if "
        "a skill is lost (fewer right answers: exact McNemar test, Holm over skills and doubled for the two sets, "
        "p <= 0.05; and not above chance any more), mixed if one is only worse, fails if none is. The number is the "
        "change of the accuracy where it falls most."
    )
    published = Published(
        "Pruned models lose knowledge-intensive skills at 25 to 30 % sparsity while the perplexity looks fine "
        "(weights, "
        "not heads)",
        "LLM-KICK 2023, arXiv 2310.01382",
        "A",
    )

    def passes(self, context: Context) -> float:  # noqa: ARG002
        """The roles, and the pairs three times."""
        return 15 + 40

    def check(self, context: Context) -> Finding:
        """See the rule."""
        from headlens.probes import Prober

        if context.metric.name != "loss":
            raise NotMeasurable("this model predicts nothing, so there is no perplexity")
        try:
            prober = Prober(context.lens, limit=PAIRS, seed=context.seed)
        except HeadlensError as error:
            raise NotMeasurable(str(error)) from error
        sets = self._sets(context)
        rises = context.measured(list(sets.values()))
        context.phase("skills with all heads on")
        prober.prepare(context.on_progress)
        found = {}
        for name, off in sets.items():
            if rises[off].delta <= context.small:
                context.phase(f"skills without {name}")
                found[name] = Candidate(rises[off].delta, prober.probe(off, on_progress=context.on_progress))
        return hidden_skill(found)

    def _sets(self, context: Context) -> dict[str, HeadSet]:
        from headlens.roles import roles

        curve = context.curve()
        share = reach(curve, context.small)
        chosen = next(p.result.off for p in curve.series("ranked") if p.fraction == share)
        context.phase("copying heads")
        found = roles(context.lens, None, detectors=COPYING, seed=context.seed, on_progress=context.on_progress)
        copying = HeadSet.of(head for role in COPYING for head in found.passing(role) if role in found.scores)
        return {name: off for name, off in ((ORDER, chosen), (COPY, copying)) if len(off)}


def hidden_skill(found: Mapping[str, Candidate]) -> Finding:
    """The verdict on the sets that stay within the budget."""
    if not found:
        raise NotMeasurable("no set of heads stays within 0.1 nats, so there is no cut whose perplexity is fine")
    if not any(skill.known for each in found.values() for skill in each.probed.skills):
        raise NotMeasurable("with all heads on the model has none of the skills that are probed, so none can be lost")
    rows = [(name, each, skill) for name, each in found.items() for skill in each.probed.skills if skill.known]
    verdicts = {(name, skill.skill.name): _verdict(each, skill) for name, each, skill in rows}
    found_any = set(verdicts.values())
    verdict: Verdict = "holds" if "lost" in found_any else "mixed" if "worse" in found_any else "fails"
    order = {"lost": 0, "worse": 1, "no change": 2}
    name, each, skill = min(
        rows, key=lambda row: (order[verdicts[row[0], row[2].skill.name]], row[2].accuracy_change.value)
    )
    change = skill.accuracy_change
    word = {"lost": "is gone", "worse": "is worse", "no change": "does not change by more than chance"}
    sentence = (
        f"Without {name} ({each.probed.off}) the held-out loss changes by {each.rise:+.3g} nats; the skill that falls "
        f"most, {skill.skill.title.lower()}, goes from {percent(skill.accuracy_before.value)} to "
        f"{percent(skill.accuracy.value)} right and {word[verdicts[name, skill.skill.name]]} (guessing: 50 %)."
    )
    probed = [one for one in each.probed.skills if one.known]
    labels = tuple(one.skill.title for one in probed)
    series = tuple(
        Series(
            title,
            labels,
            tuple(100 * getattr(one, part).value for one in probed),
            tuple(100 * getattr(one, part).low for one in probed),
            tuple(100 * getattr(one, part).high for one in probed),
        )
        for title, part in (("all heads on", "accuracy_before"), ("with the set off", "accuracy"))
    )
    figure = Figure("bars", "skill", "right answers (%)", series, 50.0)
    again = Try("Switch this set off", "pages/switchboard.py", {"off": each.probed.off})
    unit = "change of the share of right answers"
    return Finding(verdict, change.value, change.low, change.high, unit, sentence, figure, again)


def _verdict(each: Candidate, skill: SkillResult) -> str:
    """``lost``, ``worse`` or ``no change``, at half the level: two sets are tried."""
    if 2 * each.probed.p_values[skill.skill.name] > ALPHA or skill.accuracy_change.value >= 0:
        return "no change"
    found = skill.verdict(each.probed.p_values[skill.skill.name])
    return found if found in ("lost", "worse") else "no change"
