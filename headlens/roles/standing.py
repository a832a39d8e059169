"""How important the heads of each role are, and when they go, in one sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from headlens.roles.fate import LEVEL, Fate, Fates
from headlens.roles.registry import DETECTORS

if TYPE_CHECKING:
    from headlens.scores import HeadScores


def role_scores(fate: Fate, scores: HeadScores) -> list[float]:
    """Scores of the heads of a role, first to go first."""
    return [float(scores.values[head.site][head.layer, head.head]) for head in fate.heads]


def summary(found: Fates, scores: HeadScores, unit: str = "") -> str:
    """Which role's heads go last and first, how many differ from chance, and how the scores compare.

    Args:
        found: from :func:`headlens.roles.fate.fates`, in the order that ``scores`` give.
        scores: of the same heads.
        unit: of the scores.
    """
    if not found.fates:
        return "No head passes the threshold of a role, so there is nothing to say on when roles go."
    last, first = found.fates[0], found.fates[-1]
    told = [fate for fate in found.fates if fate.p_value <= 1 - LEVEL]
    text = f"Heads of the role {_when(last)} go last on average"
    if last is not first:
        text += f", those of {_when(first)} first"
    later, total = sum(fate.rank > 0.5 for fate in told), len(found.fates)
    if told:
        text += f". {later} of {total} roles surely go later than in a random order, and {len(told) - later} sooner."
    else:
        text += f". That none of the {total} roles goes at another time than in a random order cannot be ruled out."
    special = {head for fate in found.fates if not DETECTORS[fate.role].general for head in fate.heads}
    values = {head: scores.values[head.site][head.layer, head.head] for head in scores.topology.heads()}
    own, others = ([float(v) for h, v in values.items() if (h in special) is wanted] for wanted in (True, False))
    if own and others:
        end = f" {unit}" if unit else ""
        text += (
            f" The median score is {np.median(own):.3g}{end} for the {len(own)} heads with a specific role and "
            f"{np.median(others):.3g}{end} for the {len(others)} others."
        )
    return text


def _when(fate: Fate) -> str:
    gone = fate.departures[-1]
    many = f"{len(fate.heads)} heads, the last" if len(fate.heads) > 1 else "1 head,"
    return (
        f"{DETECTORS[fate.role].title.lower()} ({many} at {100 * gone.fraction:.0f} % off; by chance at "
        f"{100 * gone.expected:.0f} % [{100 * gone.low:.0f}, {100 * gone.high:.0f}])"
    )
