"""Roles that are about where a head looks, whatever stands there."""

from __future__ import annotations

import numpy as np
import torch

from headlens.roles.base import Detector, Seen, Tally, over_queries

REACH = 16
"""Relative positions further away than this are not told apart."""


class PreviousToken(Detector):
    """Looks at the token before."""

    name = "previous-token"
    title = "Previous token"
    formula = "mean over i of A[i, i-1]"
    source = "Clark et al. 2019, section 3.1; Olsson et al. 2022; TransformerLens"
    threshold_source = "Clark et al. 2019: more than half of the attention"

    def tally(self, seen: Seen) -> Tally:
        """See the base class."""
        return over_queries(seen.diagonal(-1), seen.queries[:, 1:])


class NextToken(Detector):
    """Looks at the token after."""

    name = "next-token"
    title = "Next token"
    formula = "mean over i of A[i, i+1]"
    source = "Clark et al. 2019, section 3.1"
    threshold_source = "Clark et al. 2019: more than half of the attention"
    needs = ("same axis", "both directions")

    def tally(self, seen: Seen) -> Tally:
        """See the base class."""
        return over_queries(seen.diagonal(1), seen.keys[:, 1:])


class SelfToken(Detector):
    """Looks at its own token."""

    name = "self"
    title = "Own token"
    formula = "mean over i of A[i, i]; the first token of a causal layer, which sees nothing else, is left out"
    source = "Clark et al. 2019, section 3.1"

    def tally(self, seen: Seen) -> Tally:
        """See the base class."""
        first = int(seen.causal)
        return over_queries(seen.diagonal(0)[..., first:], seen.queries[:, first:])


class FirstToken(Detector):
    """Looks at the first position: an attention sink."""

    name = "first-token"
    title = "First token (sink)"
    formula = "mean over i > 0 of A[i, 0]"
    source = "Xiao et al. 2023; Gu et al. 2024"
    needs = ()
    general = True

    def tally(self, seen: Seen) -> Tally:
        """See the base class. Query 0 is left out: in a causal layer it sees nothing else."""
        return over_queries(seen.pattern[..., 1:, 0], seen.queries[:, 1:])


class Distance(Detector):
    """How far it looks."""

    name = "distance"
    title = "Mean distance"
    formula = "mean over i of sum over j of A[i, j] |i - j|"
    source = "Michel et al. 2019, released code (statistics of heads)"
    threshold = None
    threshold_source = ""
    unit = "tokens"

    def tally(self, seen: Seen) -> Tally:
        """See the base class."""
        query, key = seen.pattern.shape[-2:]
        device = seen.pattern.device
        apart = (torch.arange(query, device=device)[:, None] - torch.arange(key, device=device)[None]).abs()
        return over_queries((seen.pattern * apart).sum(-1), seen.queries)


class Positional(Detector):
    """Its largest weight is nearly always at one and the same relative position."""

    name = "positional"
    title = "Positional"
    formula = f"largest share of i with argmax over j of A[i, j] = i + d, over d from -{REACH} to {REACH}"
    source = "Voita et al. 2019, section 5.1"
    threshold = 0.9
    threshold_source = "Voita et al. 2019: at least 90 % of the time"
    unit = "share of positions"
    general = True
    bins = 2 * REACH + 1

    def tally(self, seen: Seen) -> Tally:
        """See the base class. The first query of a causal layer has no choice and is left out."""
        counted = seen.queries.clone()
        counted[:, : int(seen.causal)] = False
        query = torch.arange(seen.pattern.shape[-2], device=seen.pattern.device)
        offset = seen.pattern.argmax(-1) - query + REACH  # [rows, heads, query]
        near = counted[:, None] & (offset >= 0) & (offset < self.bins)
        found = torch.zeros(*offset.shape[:2], self.bins, dtype=torch.long, device=offset.device)
        found.scatter_add_(-1, offset.clamp(0, self.bins - 1), near.long())
        return found, counted.sum(-1)

    def score(self, sums: np.ndarray, count: np.ndarray) -> np.ndarray:
        """See the base class."""
        return sums.max(-1) / count
