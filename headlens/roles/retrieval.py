"""Heads that fetch what was said far above."""

from __future__ import annotations

import torch

from headlens.roles.base import Detector, Seen, Tally


class Retrieval(Detector):
    """While the model says a sentence of a long text again, it looks at the very token that is said next."""

    name = "retrieval"
    title = "Retrieval"
    formula = (
        "a sentence in a long text is asked for: share of its tokens w that the model says with argmax over j of "
        "A[i, j] in the sentence and the token at j = w"
    )
    source = "Wu et al. 2024, section 2 (retrieval heads)"
    threshold = 0.1
    threshold_source = "Wu et al. 2024, released code: above 0.1"
    unit = "share of the sentence's tokens"
    looks_at = "needle"
    general = True
    costly = True

    def tally(self, seen: Seen) -> Tally:
        """See the base class."""
        assert seen.needles is not None
        heads = seen.pattern.shape[1]
        found = torch.zeros(len(seen.needles), heads, 1, dtype=torch.float64)
        for row, needle in enumerate(seen.needles):
            looked = seen.pattern[row][:, needle.queries.to(seen.pattern.device)].argmax(-1).cpu()  # [heads, said]
            hit = needle.keys[None].expand(heads, -1, -1).gather(-1, looked[..., None])[..., 0]
            found[row, :, 0] = hit.double().sum(-1)
        return found, torch.tensor([needle.length for needle in seen.needles])
