"""Heads that follow a dependency relation, in either direction."""

from __future__ import annotations

import numpy as np
import torch

from headlens.metrics import double
from headlens.roles.base import Detector, Links, Seen, Tally
from headlens.roles.parses import KINDS

_PARTS = 3  # hits, hits of the best fixed offset, questions


class Syntactic(Detector):
    """Looks at the word that a dependency relation leads to, more often than any fixed offset would."""

    name = "syntactic"
    title = "Syntactic"
    formula = (
        "largest difference, over relations and directions, between the share of words whose largest weight (over "
        "words, pieces summed) is at the related word, and that share for the best fixed offset"
    )
    source = "Voita et al. 2019, section 5.2; word-level maps as Clark et al. 2019, section 4.1"
    threshold = 0.1
    threshold_source = "Voita et al. 2019: 10 % above the best fixed offset, read as points"
    unit = "share of words above the best offset"
    looks_at = "parsed"
    costly = True
    bins = _PARTS * len(KINDS)

    def tally(self, seen: Seen) -> Tally:
        """See the base class. The first position of a causal layer (a sink) is no candidate."""
        assert seen.links is not None
        rows, heads = seen.pattern.shape[:2]
        found = torch.zeros(rows, heads, _PARTS, len(KINDS), dtype=torch.float64)
        for row, links in enumerate(seen.links):
            hits = word_hits(seen.pattern[row], links, seen.causal).cpu()
            parts = [
                double(hits),
                links.baseline.double().expand(heads, -1),
                torch.ones(heads, len(links.kind)).double(),
            ]
            for part, values in enumerate(parts):
                found[row, :, part].index_add_(1, links.kind, values)
        count = torch.tensor([len(links.kind) for links in seen.links])
        return found.flatten(2), count

    def score(self, sums: np.ndarray, count: np.ndarray) -> np.ndarray:  # noqa: ARG002
        """See the base class."""
        above = self.above(sums)
        known = np.isfinite(above)
        return np.where(known.any(-1), np.where(known, above, -np.inf).max(-1), np.nan)

    def above(self, sums: np.ndarray) -> np.ndarray:
        """Share of words above the best fixed offset, by kind of link: ``[..., bins]`` to ``[..., kinds]``."""
        hits, baseline, questions = np.moveaxis(sums.reshape(*sums.shape[:-1], _PARTS, len(KINDS)), -2, 0)
        with np.errstate(invalid="ignore", divide="ignore"):
            return (hits - baseline) / questions

    def detail(self, sums: np.ndarray) -> np.ndarray | None:
        """See the base class: ``obj, word to head: 78 %, best offset 41 % (120 words)``."""
        above = self.above(sums)
        best = np.where(np.isfinite(above), above, -np.inf).argmax(-1)
        parts = sums.reshape(*sums.shape[:-1], _PARTS, len(KINDS))
        words = np.full(best.shape, "", dtype=object)
        for place in np.ndindex(*best.shape):
            kind = int(best[place])
            hits, baseline, questions = parts[place][:, kind]
            if questions > 0:
                shares = f"{100 * hits / questions:.0f} %, best offset {100 * baseline / questions:.0f} %"
                words[place] = f"{KINDS[kind]}: {shares} ({questions:.0f} words)"
        return words


def word_hits(pattern: torch.Tensor, links: Links, causal: bool) -> torch.Tensor:
    """Whether each head looks at a right word, bool ``[heads, questions]``.

    From tokens to words: weights on a word's pieces are summed, those from its pieces are averaged; what is no word
    does not take part.

    Args:
        pattern: of one text, ``[heads, query, key]``.
        links: its questions.
        causal: whether the layer is.
    """
    words = links.targets.shape[1]
    member = torch.nn.functional.one_hot(links.word_of.clamp(min=0), words).to(pattern) * (links.word_of >= 0)[
        :, None
    ].to(pattern)
    size = len(links.word_of)
    keys = member.clone()
    if causal:
        keys[0] = 0
    mean = member / member.sum(0).clamp(min=1)
    by_word = mean.T @ pattern[:, :size, :size] @ keys  # [heads, words, words]
    asked = by_word[:, links.query.to(pattern.device)]
    best, at = asked.max(-1)  # [heads, questions]
    right = links.targets.to(pattern.device)[None].expand(len(pattern), -1, -1).gather(-1, at[..., None])[..., 0]
    return right & (best > 0)
