"""Roles that show on a random block of tokens which is repeated: nothing but copying can predict it."""

from __future__ import annotations

import torch

from headlens.metrics import double
from headlens.roles.base import Detector, Repeat, Seen, Tally


def _entries(seen: Seen, shift: int) -> Tally:
    """Mean of ``A[i, j + shift]`` over every query i of a later copy and each earlier copy j of its token."""
    repeat = seen.repeat
    assert repeat is not None
    queries, keys = _pairs(repeat, shift)
    total = double(seen.pattern[:, :, queries, keys]).sum(-1, keepdim=True)
    return total, torch.full((len(total),), len(queries))


def _pairs(repeat: Repeat, shift: int) -> tuple[list[int], list[int]]:
    pairs = [
        (repeat.front + later * repeat.block + token, repeat.front + earlier * repeat.block + token + shift)
        for later in range(1, repeat.times)
        for earlier in range(later)
        for token in range(repeat.block)
    ]
    return [query for query, _ in pairs], [key for _, key in pairs]


class DuplicateToken(Detector):
    """Looks at the earlier copy of its own token."""

    name = "duplicate-token"
    title = "Duplicate token"
    formula = "random block of n tokens twice: mean over i in the second half of A[i, i-n]"
    source = "Wang et al. 2022; TransformerLens head detector"
    looks_at = "twice"

    def tally(self, seen: Seen) -> Tally:
        """See the base class."""
        return _entries(seen, 0)


class Induction(Detector):
    """Looks at what came after the earlier copy of its own token."""

    name = "induction"
    title = "Induction"
    formula = "random block of n = 50 tokens twice: mean over i in the second half of A[i, i-(n-1)]"
    source = "Olsson et al. 2022; TransformerLens main demo"
    threshold_source = "ours: more than half of the attention; GPT-2's induction heads reach 0.8 and more in that demo"
    looks_at = "twice"

    def tally(self, seen: Seen) -> Tally:
        """See the base class."""
        return _entries(seen, 1)


class PrefixMatching(Detector):
    """The induction score of Olsson et al., where up to three earlier copies share the attention."""

    name = "prefix-matching"
    title = "Prefix matching"
    formula = "random block of 25 tokens four times: mean of all A[i, j+1] with j an earlier copy of the token at i"
    source = "Olsson et al. 2022, appendix"
    threshold = 0.35
    threshold_source = "a public replication on GPT-2; with several targets a perfect head reaches 0.5"
    looks_at = "four times"
    general = True

    def tally(self, seen: Seen) -> Tally:
        """See the base class."""
        return _entries(seen, 1)
