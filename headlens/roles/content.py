"""Roles that are about what stands at the keys, and about how widely a head looks."""

from __future__ import annotations

import math

import torch

from headlens.roles.base import Detector, Seen, Tally, over_queries


class _OnKeys(Detector):
    """Mean attention mass on marked keys, over the queries that can see one."""

    needs = ("tokens",)
    threshold = 0.6
    threshold_source = "Clark et al. 2019, released notebook"

    def _mass(self, seen: Seen, marked: torch.Tensor) -> Tally:
        within = marked[:, None, :].expand(-1, seen.pattern.shape[-2], -1)
        visible = (within.tril() if seen.causal else within).any(-1) & seen.queries
        return over_queries((seen.pattern * marked[:, None, None, :]).sum(-1), visible)


class Separator(_OnKeys):
    """Looks at separators and other special tokens."""

    name = "separator"
    title = "Separator"
    formula = "mean over i of sum of A[i, j] over special tokens j (the first position left out), where i sees one"
    source = "Clark et al. 2019, section 3.2"

    def tally(self, seen: Seen) -> Tally:
        """See the base class."""
        assert seen.separators is not None
        return self._mass(seen, seen.separators)


class Punctuation(_OnKeys):
    """Looks at punctuation."""

    name = "punctuation"
    title = "Punctuation"
    formula = "mean over i of sum of A[i, j] over tokens j of punctuation only, where i sees one"
    source = "Clark et al. 2019, section 3.2"

    def tally(self, seen: Seen) -> Tally:
        """See the base class."""
        assert seen.punctuation is not None
        return self._mass(seen, seen.punctuation)


class Broad(Detector):
    """Spreads its attention over nearly everything that it sees."""

    name = "broad"
    title = "Broad"
    formula = "mean over i of entropy(A[i]) / ln(number of keys that i sees), where it sees two or more"
    source = "Clark et al. 2019, section 3.3 (entropy); divided by its maximum so that lengths compare"
    threshold = round(3.8 / math.log(128), 2)
    threshold_source = "Clark et al. 2019, released notebook: 3.8 nats at up to 128 tokens, whose maximum is 4.85"
    unit = "share of the maximum"
    needs = ()
    general = True

    def tally(self, seen: Seen) -> Tally:
        """See the base class."""
        visible = seen.keys[:, None, :].expand(-1, seen.pattern.shape[-2], -1)
        count = (visible.tril() if seen.causal else visible).sum(-1)  # [rows, query]
        entropy = torch.special.entr(seen.pattern).sum(-1)
        share = entropy / count.clamp(min=2).log()[:, None]
        return over_queries(share, seen.queries & (count > 1))
