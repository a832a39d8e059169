"""All claims, cheapest first. A new one: a class in a file here, an id in ``headlens.interview.claims``, a test."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from headlens.claims.base import Claim
from headlens.claims.during import PrunableDuringTraining
from headlens.claims.initial import IndependentAtInit
from headlens.claims.rankings import MethodsAgree, Replicates, ZeroMeanAgree
from headlens.claims.recovering import Recovers
from headlens.claims.removable import BeatsChance, ShareRemovable, SingleHeadLayers
from headlens.claims.skills import HiddenSkill
from headlens.claims.special import CrossMostSensitive, RolesGoLast
from headlens.claims.speed import SmallerAndFaster
from headlens.claims.together import Additive
from headlens.claims.training import ScratchWorse, SharingKeeps
from headlens.errors import HeadlensError

REGISTRY: tuple[Claim, ...] = (
    ScratchWorse(),
    SharingKeeps(),
    CrossMostSensitive(),
    IndependentAtInit(),
    RolesGoLast(),
    Replicates(),
    SmallerAndFaster(),
    ShareRemovable(),
    BeatsChance(),
    HiddenSkill(),
    Additive(),
    MethodsAgree(),
    ZeroMeanAgree(),
    SingleHeadLayers(),
    PrunableDuringTraining(),
    Recovers(),
)


def find_claims(names: Iterable[str] | None = None) -> tuple[Claim, ...]:
    """Claims by id, cheapest first; None takes all.

    Raises:
        HeadlensError: an unknown id, or none.
    """
    if names is None:
        return REGISTRY
    wanted = list(names)
    known = [claim.name for claim in REGISTRY]
    for name in wanted:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {close[0]}? " if close else ""
            raise HeadlensError(f"unknown claim {name[:60]!r}; {hint}choose from {', '.join(known)}")
    if not wanted:
        raise HeadlensError(f"no claim is named; choose from {', '.join(known)}")
    return tuple(claim for claim in REGISTRY if claim.name in wanted)
