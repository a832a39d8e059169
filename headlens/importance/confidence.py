"""How sure a head is of where it looks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headlens.importance.base import Request
from headlens.importance.watch import WatchingMethod, by_group

if TYPE_CHECKING:
    from torch import Tensor

    from headlens.data.encode import Batch
    from headlens.lens import Lens


class ConfidenceMethod(WatchingMethod):
    """Average of the largest attention weight."""

    name = "confidence"
    title = "Confidence"
    formula = "mean over query tokens of max over keys of attention, end-of-sequence token excluded on both sides"
    source = "Voita et al. 2019, section 3"
    needs = ("data", "patterns")
    watches_pattern = True

    def per_position(self, lens: Lens, request: Request, site: str, layer: int, seen: Tensor, batch: Batch) -> Tensor:
        """See the base class."""
        key_site = "enc" if site == "cross" else site
        keys = self.counted(lens, batch, key_site, seen.shape[-1])
        largest = seen.masked_fill(~keys[:, None, None, :], 0.0).amax(-1).transpose(1, 2)  # [rows, query, heads]
        return by_group(lens, site, layer, largest, "mean") if request.unit == "kv" else largest

    def counted(self, lens: Lens, batch: Batch, site: str, queries: int) -> Tensor:
        """Non-padding positions that hold no end-of-sequence token."""
        real = batch.positions(site, queries)
        ids = batch.inputs.get("decoder_input_ids" if site in ("dec", "cross") else "input_ids")
        end = getattr(lens.tokenizer, "eos_token_id", None)
        end = end if end is not None else getattr(lens.tokenizer, "sep_token_id", None)
        return real if ids is None or end is None else real & (ids != end)
