"""Do heads become prunable while a model is trained? From copies that were kept on the way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from headlens.claims.base import Claim, Figure, Finding, NotMeasurable, Published, Series, Try, Verdict, percent
from headlens.claims.removable import reach
from headlens.pruning.budget import cost
from headlens.pruning.plan import RANKED
from headlens.significance import Z_95

if TYPE_CHECKING:
    from headlens.claims.context import Context
    from headlens.pruning.points import Curve

AGAIN = Try("See it during training", "pages/lab.py", {"lab_section": "During training"})


class PrunableDuringTraining(Claim):
    """The removable share in copies that were kept while the model was trained."""

    name = "prunable-during-training"
    why = "If heads could go from the start, one could train without them; redundancy that grows speaks for the search."
    rule = (
        "In each kept copy: share of heads that can go in the order of the score half before the held-out loss has "
        "risen "
        "by a tenth of what removing every head costs that copy. Number: share at the end less share at the first "
        "copy; "
        "ends from the 95 % bounds of both curves. Holds if all of it is above 0, fails if it is 0 or below, else "
        "mixed."
    )
    published = Published(
        "In the first epochs every head counts about equally; from epoch 10 on up to 40 % can go at 85 to 90 % of BLEU",
        "Michel et al. 2019, §6",
        "N",
    )

    def passes(self, context: Context) -> float:
        """Scores and both orders of a curve for each copy and for the end."""
        copies = len(_copies(context.lens.name))
        return (20 + 3) * (copies + 1) if copies else 0

    def check(self, context: Context) -> Finding:
        """See the rule."""
        from headlens.lens import open_model

        names = _copies(context.lens.name)
        if not names:
            raise NotMeasurable(
                "no copies from its training are kept for this model; `headlens claims zoo-gpt2 --only "
                "prunable-during-training` measures one that has them"
            )
        found = []
        for name in [*names, context.lens.name]:
            lens = context.lens if name == context.lens.name else open_model(name, device=str(context.lens.device))
            context.phase(f"the curve of {name}")
            curve = replace(context, lens=lens).curve(orders=0)
            found.append((name.partition("@")[2] or "end", removable(curve)))
        return prunable_during_training(found)


def _copies(name: str) -> list[str]:
    from headlens.models.catalogue import checkpoints, find

    entry = find(name)
    return checkpoints(name) if entry is not None and entry.source == "zoo" and "@" not in name else []


def removable(curve: Curve) -> tuple[float, float, float]:
    """Value, low and high end of the share that can go at a tenth of the cost of removing every head."""
    whole = cost(curve.series(RANKED)[-1].result.need(curve.figure), curve.figure)
    limit = max(whole, 0.0) / 10
    value, low, high = (reach(curve, limit, z) for z in (0.0, Z_95, -Z_95))
    return value, low, high


def prunable_during_training(found: Sequence[tuple[str, tuple[float, float, float]]]) -> Finding:
    """The verdict on (step, (share, low, high)) of the copies, in order."""
    (first_step, first), (_, last) = found[0], found[-1]
    value, low, high = last[0] - first[0], last[1] - first[2], last[2] - first[1]
    verdict: Verdict = "holds" if low > 0 else "fails" if high <= 0 else "mixed"
    sentence = (
        f"After {first_step} steps {percent(first[0])} of the heads can go at a tenth of the cost of all, at the end "
        f"{percent(last[0])} ({percent(last[1])} to {percent(last[2])})."
    )
    series = Series(
        "removable share",
        tuple(step for step, _ in found),
        *(tuple(100 * one[part] for _, one in found) for part in range(3)),
    )
    figure = Figure("bars", "steps of training", "removable heads (%)", (series,))
    return Finding(verdict, value, low, high, "share of heads", sentence, figure, AGAIN)
