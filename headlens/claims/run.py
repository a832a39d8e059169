"""Runs claims one after the other, cheapest first; each finished one is kept in the store and comes from there."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headlens.claims.base import Claim, Finding, NotMeasurable
from headlens.errors import StoreError
from headlens.server.limits import LimitError
from headlens.store import unit_key

if TYPE_CHECKING:
    from headlens.claims.context import Context

VERSION = 3
"""Raise it when a rule or a number of a claim changes: stored findings are then not found."""
_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Checked:
    """A claim with what was found on one model.

    Attributes:
        claim: which.
        finding: what came out.
        seconds: that the check took when it was made.
        cached: whether it comes from the store.
    """

    claim: Claim
    finding: Finding
    seconds: float
    cached: bool = False

    @property
    def disagrees(self) -> bool:
        """Whether the model says otherwise than the textbook."""
        return self.finding.verdict in ("holds", "fails") and self.finding.verdict != self.claim.textbook

    def record(self) -> dict[str, Any]:
        """The contract's record."""
        found = self.finding
        return {
            "id": self.claim.name,
            "statement": self.claim.statement,
            "verdict": found.verdict,
            "value": found.value,
            "low": found.low,
            "high": found.high,
            "unit": found.unit,
            "rule": self.claim.rule,
            "published": self.claim.published.line(),
            "source": self.claim.published.source,
            "seconds": round(self.seconds, 3),
            "sentence": found.sentence,
            "why": self.claim.why,
            "grade": self.claim.published.grade,
            "textbook": self.claim.textbook,
            "try": None if found.again is None else found.again.line(),
            "cached": self.cached,
        }


def not_measured(why: str) -> Finding:
    """The finding of a claim that cannot be checked here."""
    return Finding("not measurable", None, None, None, "", why[:1].upper() + why[1:])


def check_all(
    context: Context,
    claims: Sequence[Claim],
    *,
    costly: bool = False,
    on_start: Callable[[Claim], None] | None = None,
    on_found: Callable[[Checked], None] | None = None,
) -> list[Checked]:
    """Checks claims.

    Args:
        context: what they share.
        claims: which.
        costly: also run those that take long; otherwise they are told as not measured here, unless stored.
        on_start: called with each claim before it is checked.
        on_found: called with each that is done.

    Raises:
        HeadlensError: from a measurement; Cancelled: from ``context.on_progress``. What is done is in the store.
    """
    found = []
    for claim in claims:
        if on_start is not None:
            on_start(claim)
        found.append(check(context, claim, costly=costly))
        if on_found is not None:
            on_found(found[-1])
    return found


def check(context: Context, claim: Claim, *, costly: bool = False) -> Checked:
    """One claim, from the store if it is there; see :func:`check_all`."""
    stored = kept(context, claim)
    if stored is not None:
        return stored
    if claim.costly and not costly:
        why = f"left out because it takes long; `headlens claims {context.lens.name} --only {claim.name}` measures it"
        return Checked(claim, not_measured(why), 0.0)
    start = time.perf_counter()
    try:
        finding = claim.check(context)
    except (NotMeasurable, LimitError) as reason:
        return Checked(claim, not_measured(str(reason)), time.perf_counter() - start)
    finding = Finding.from_json(finding.to_json())  # the same numbers, whether it comes from the store or not
    checked = Checked(claim, finding, time.perf_counter() - start)
    if context.store is not None and not claim.of_the_lab:
        meta: Mapping[str, Any] = {"finding": finding.to_json(), "seconds": checked.seconds}
        try:
            context.store.put(key_of(context, claim), {}, meta)
        except StoreError as error:
            _logger.warning("%s", error)
    return checked


def kept(context: Context, claim: Claim) -> Checked | None:
    """The claim as it was found earlier with the very same examples and rule; None if it was not, or is not kept."""
    if context.store is None or not context.resume or claim.of_the_lab:
        return None
    stored = context.store.meta(key_of(context, claim))
    if stored is None:
        return None
    return Checked(claim, Finding.from_json(stored["finding"]), stored["seconds"], cached=True)


def key_of(context: Context, claim: Claim) -> str:
    """Store key of a finding: everything that decides it."""
    import torch

    return unit_key(
        kind="claim",
        version=VERSION,
        claim=claim.name,
        rule=claim.rule,
        model=context.lens.fingerprint,
        name=context.lens.name,
        dtype=str(context.lens.dtype),
        device=str(context.lens.device),
        threads=torch.get_num_threads() if claim.name == "smaller-and-faster" else None,
        score=context.score.hash,
        held_out=context.held_out.hash,
        limit=context.limit,
        tokens=context.tokens,
        max_tokens=context.max_tokens,
        seed=context.seed,
    )


def headline(found: Sequence[Checked]) -> str:
    """One sentence on where the model and the textbook part, and on how many claims there is anything to say."""
    measured = [one for one in found if one.finding.verdict != "not measurable"]
    against = {
        who: [one for one in found if one.disagrees and one.claim.of_the_lab == lab]
        for who, lab in (("This model disagrees", False), ("The lab's own runs disagree", True))
    }
    counts = {word: sum(one.finding.verdict == word for one in measured) for word in ("holds", "fails", "mixed")}
    start = (
        f"Of {len(found)} claims {len(measured)} could be measured: {counts['holds']} hold, {counts['fails']} fail, "
        f"{counts['mixed']} are mixed"
    )
    if not any(against.values()):
        return f"{start}; none contradicts the textbook."
    parts = []
    for who, ones in against.items():
        listed = "; ".join(f"“{one.claim.statement.rstrip('.')}” {one.finding.verdict} here" for one in ones)
        parts += [f"{who} with the textbook: {listed}."] if ones else []
    return " ".join([f"{start}.", *parts])
