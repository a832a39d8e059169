"""Heads that look at the rarest word they can see."""

from __future__ import annotations

import torch

from headlens.roles.base import Detector, Seen, Tally, over_queries

LEAST_KEYS = 5
"""Queries that see fewer ordinary tokens do not count: with little to choose from, anything is the rarest."""


class RareWord(Detector):
    """Its largest weight is at the least frequent token."""

    name = "rare-word"
    title = "Rare word"
    formula = (
        "share of i whose largest A[i, j] over ordinary tokens j is at the one that is rarest in the data, "
        f"where i sees {LEAST_KEYS} or more and one is the rarest"
    )
    source = "Voita et al. 2019, section 5.3 (there the rarest of the sentence, by the training text)"
    threshold_source = "ours: more than half of the positions (Voita's head: 66 %)"
    unit = "share of positions"
    needs = ("same axis", "tokens")
    least = 100

    def tally(self, seen: Seen) -> Tally:
        """See the base class. Special tokens, and the first position of a causal layer (a sink), are left out."""
        assert seen.frequency is not None
        assert seen.special is not None
        open_keys = seen.keys & ~seen.special
        if seen.causal:
            open_keys = open_keys.clone()
            open_keys[:, 0] = False
        visible = open_keys[:, None, :].expand(-1, seen.pattern.shape[-2], -1)
        visible = visible.tril() if seen.causal else visible  # [rows, query, key]
        often = torch.iinfo(torch.long).max
        frequency = seen.frequency[:, None, :].masked_fill(~visible, often)
        lowest = frequency.amin(-1, keepdim=True)
        rarest = (frequency == lowest) & visible
        counted = (rarest.sum(-1) == 1) & (visible.sum(-1) >= LEAST_KEYS) & seen.queries & ~seen.special
        looked = seen.pattern.masked_fill(~visible[:, None], -1.0).argmax(-1)  # [rows, heads, query]
        hit = rarest[:, None].expand(-1, looked.shape[1], -1, -1).gather(-1, looked[..., None])[..., 0]
        return over_queries(hit.double(), counted)
