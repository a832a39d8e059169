"""What claims cost, told beforehand: forward passes over one set of examples, a guess of the time. No torch here."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headlens.claims.base import Claim
    from headlens.claims.context import Context

OPERATIONS = 1.3e11
"""Operations a second of two free processor cores (measured: SmolLM2 reads 500 tokens a second), for guesses."""
EXAMPLE = 1e-3
"""Seconds that an example of a pass takes however small the model is (measured: 64 short texts 0.07 s, 100 small
pictures 0.1 s of one processor core)."""
SWEEP = 0.6
"""Passes that an exact sweep takes for each head: blocks below it are not computed again."""
CURVE = 10 * 7
"""Points of the curve: ranked, reverse and five random orders at ten steps."""


def shared(name: str, heads: int) -> float:
    """Passes of work that several claims share and that is done once."""
    return {"order": 3.0, "curve": float(CURVE), "ablation": 1 + SWEEP * heads}[name]


def passes(context: Context, claims: Iterable[Claim]) -> float:
    """Of some claims together."""
    chosen = list(claims)
    names = {name for claim in chosen for name in claim.shares}
    return sum(claim.passes(context) for claim in chosen) + sum(shared(name, context.heads) for name in names)


def seconds(context: Context, claims: Iterable[Claim]) -> float:
    """A guess from the size of the model: right to a factor of two or so on two free processor cores."""
    from headlens.claims.examples import tokens_of

    examples = context.held_out.examples
    tokens = sum(tokens_of(example, context.lens) for example in examples)
    return passes(context, claims) * (2 * context.lens.parameters * tokens / OPERATIONS + EXAMPLE * len(examples))
