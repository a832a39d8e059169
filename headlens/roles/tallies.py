"""Adds up what the detectors count, from patterns that come in layer by layer and are never kept."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from headlens.roles.base import Detector, Seen, Source
from headlens.tokens import readable_tokens

if TYPE_CHECKING:
    from torch import Tensor

    from headlens.data.encode import Batch, EncodedData
    from headlens.heads import LayerShape
    from headlens.lens import Lens


@dataclass(frozen=True)
class TextSource:
    """The given data, for roles that show on ordinary text; ``counts`` only where a role asks how common tokens are."""

    data: EncodedData
    counts: Mapping[str, Counter[int]] | None = None

    def seen(self, site: str, causal: bool, batch: Batch) -> dict[str, Any]:  # noqa: ARG002
        """See :class:`headlens.roles.base.Source`."""
        name = "decoder_input_ids" if site == "dec" else "input_ids"
        ids = batch.inputs.get(name)
        if ids is None or self.counts is None:
            return {}
        often = [[self.counts[name][number] for number in row] for row in ids.tolist()]
        return {"frequency": torch.tensor(often, dtype=torch.long, device=ids.device)}


@dataclass(frozen=True)
class Result:
    """One role at one site, each ``[layer, head]``: the score, the example that shows it best (-1 for none), and what
    the head does in words (None where the score says it all)."""

    score: np.ndarray
    example: np.ndarray
    detail: np.ndarray | None


class Tallies:
    """Receives patterns layer by layer and adds up what the detectors count in each example.

    Args:
        lens: the model.
        detectors: that look at the source.
        source: what they look at.
    """

    def __init__(self, lens: Lens, detectors: Sequence[Detector], source: Source) -> None:
        self.lens, self.detectors, self.source = lens, detectors, source
        self.data = source.data
        self.text = lens.accepts("input_ids")
        self.batch: Batch | None = None
        self.kinds = Kinds(lens.tokenizer)
        self.sums: dict[tuple[str, str], np.ndarray] = {}  # (role, site): [examples, layer, head, bins]
        self.counts: dict[tuple[str, str], np.ndarray] = {}  # [examples, layer]

    def __call__(self, site: str, layer: int, pattern: Tensor) -> None:
        shape = self.lens.topology.site(site).layers[layer]
        wanted = [detector for detector in self.detectors if self._makes_sense(detector, site, shape)]
        if not wanted or not shape.heads:
            return
        assert self.batch is not None
        seen = self._seen(site, shape, pattern, self.batch)
        if seen is None:
            return
        rows = list(self.batch.indices)
        for detector in wanted:
            sums, counts = self._arrays(detector, site)
            found, count = detector.tally(seen)
            sums[np.ix_(rows, [layer], list(shape.heads))] = found.cpu().numpy()[:, None]
            counts[rows, layer] = count.cpu().numpy()

    def _makes_sense(self, detector: Detector, site: str, shape: LayerShape) -> bool:
        text = self.text and site != "vision"
        met = {
            "same axis": text and site != "cross",
            "tokens": text and self.lens.tokenizer is not None,
            "both directions": not shape.causal,
        }
        return all(met[need] for need in detector.needs) and (detector.looks_at == "text" or met["same axis"])

    def _arrays(self, detector: Detector, site: str) -> tuple[np.ndarray, np.ndarray]:
        key = (detector.name, site)
        if key not in self.sums:
            shape = self.lens.topology.site(site)
            size = (len(self.data), len(shape.layers))
            self.sums[key] = np.full((*size, shape.width(), detector.bins), np.nan)
            self.counts[key] = np.zeros(size)
        return self.sums[key], self.counts[key]

    def _seen(self, site: str, shape: LayerShape, pattern: Tensor, batch: Batch) -> Seen | None:
        key_site = "enc" if site == "cross" else site
        queries, keys = (batch.positions(s, n) for s, n in ((site, pattern.shape[-2]), (key_site, pattern.shape[-1])))
        ids = batch.inputs.get("decoder_input_ids" if key_site == "dec" else "input_ids")
        causal = shape.causal and site != "cross"
        more = self.source.seen(site, causal, batch)
        if more is None:
            return None
        special = torch.zeros_like(keys)
        if ids is None or self.lens.tokenizer is None or ids.shape[1] != pattern.shape[-1]:
            separators = punctuation = torch.zeros_like(keys)
        else:
            special, punctuation = (mask & keys for mask in self.kinds.of(ids))
            separators = special.clone()
            separators[:, 0] = False
        return Seen(pattern, queries, keys, causal, separators, punctuation, special=special, **more)

    def results(self, detector: Detector) -> dict[str, Result]:
        """What was found by site."""
        found = {}
        for (name, site), sums in self.sums.items():
            if name != detector.name:
                continue
            counts = self.counts[name, site]
            with np.errstate(invalid="ignore", divide="ignore"):
                total = np.where(counts.sum(0) >= detector.least, counts.sum(0), np.nan)
                score = detector.score(sums.sum(0), total[:, None])
                each = detector.score(sums, counts[:, :, None])
            known = np.where(np.isfinite(each), each, -np.inf)
            best = np.where(np.isfinite(known).any(0), known.argmax(0), -1)
            detail = detector.detail(sums.sum(0))
            found[site] = Result(np.where(np.isfinite(score), score, np.nan), best, detail)
        return found


class Kinds:
    """Which token ids are special and which are punctuation; each id is looked up once."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        # Special to the tokenizer, but they stand for ordinary words.
        self.hidden: set[Any] = {getattr(tokenizer, name, None) for name in ("mask_token_id", "unk_token_id")}
        self.known: dict[int, tuple[bool, bool]] = {}

    def of(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Two masks of the shape of ``ids``: special tokens, and tokens of punctuation only."""
        present: list[int] = ids.unique().tolist()
        for number in (i for i in present if i not in self.known):
            label = readable_tokens(self.tokenizer, [number])[0]
            text = label.surface.strip()
            mark = bool(text) and all(unicodedata.category(char).startswith("P") for char in text)
            self.known[number] = (label.is_special and number not in self.hidden, mark and not label.is_special)
        found = [[self.known[number] for number in row] for row in ids.tolist()]
        both = torch.tensor(found, dtype=torch.bool, device=ids.device)
        return both[..., 0], both[..., 1]
