"""Every role score of every head, from patterns that are looked at layer by layer and never kept."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from headlens.heads import Head
from headlens.roles.base import Detector, Input, Seen
from headlens.roles.blocks import Blocks, repeated_blocks
from headlens.roles.registry import DETECTORS
from headlens.run import Run
from headlens.tokens import readable_tokens

if TYPE_CHECKING:
    import pandas as pd
    from torch import Tensor

    from headlens.data.encode import Batch, EncodedData
    from headlens.heads import LayerShape, Topology
    from headlens.lens import Lens


@dataclass(frozen=True)
class RoleScores:
    """Role scores of every head of a model.

    Attributes:
        topology: which heads there are.
        scores: by role and site, float64 ``[layer, head]``; NaN where there is no such head or nothing to measure. A
            site for which a role makes no sense has no entry.
        examples: by role and site, index of the example in which the role shows best, int ``[layer, head]``; -1 for
            none. It counts the given data, or the random blocks for roles that look at those.
        seed: drew the random blocks.
    """

    topology: Topology
    scores: Mapping[str, Mapping[str, np.ndarray]]
    examples: Mapping[str, Mapping[str, np.ndarray]]
    seed: int

    def of(self, head: Head) -> dict[str, float]:
        """Scores of one head by role, without those that could not be measured."""
        found = {
            role: by_site[head.site][head.layer, head.head]
            for role, by_site in self.scores.items()
            if head.site in by_site
        }
        return {role: float(score) for role, score in found.items() if np.isfinite(score)}

    def label(self, head: Head) -> str | None:
        """The role that suits a head best, of those whose threshold it passes; None when it passes none.

        Scores of different roles compare by how far they are on the way from their threshold to 1. The general ones
        (first token, positional, broad, prefix matching) count only where no other passes: an induction head, for one,
        rests on the first token wherever nothing repeats.
        """
        best: tuple[bool, float, str] | None = None
        for role, score in self.of(head).items():
            detector = DETECTORS[role]
            if detector.threshold is None or score < detector.threshold:
                continue
            found = (not detector.general, (score - detector.threshold) / (1 - detector.threshold), role)
            best = found if best is None or found[:2] > best[:2] else best
        return None if best is None else best[2]

    def labels(self) -> dict[Head, str | None]:
        """The label of every head."""
        return {head: self.label(head) for head in self.topology.heads()}

    def passing(self, role: str) -> list[Head]:
        """Heads whose score passes the role's threshold."""
        threshold = DETECTORS[role].threshold
        return [h for h in self.topology.heads() if threshold is not None and self.of(h).get(role, -1) >= threshold]

    def to_frame(self) -> pd.DataFrame:
        """Columns ``site, layer, head, role, score``: a row for each head and role of its site."""
        import pandas as pd

        rows = [
            (head.site, head.layer, head.head, role, by_site[head.site][head.layer, head.head])
            for head in self.topology.heads()
            for role, by_site in self.scores.items()
            if head.site in by_site
        ]
        return pd.DataFrame(rows, columns=["site", "layer", "head", "role", "score"])


def roles(
    lens: Lens,
    data: EncodedData | None,
    *,
    seed: int = 0,
    batch_size: int = 8,
    on_progress: Callable[[int, int], None] | None = None,
) -> RoleScores:
    """Scores every head of every site by every detector that makes sense there.

    Args:
        lens: the model.
        data: tokenised examples for the roles that show on ordinary text; None leaves those out.
        seed: draws the random blocks of the copying roles.
        batch_size: examples a forward pass.
        on_progress: called with (done, total) batches; may raise to cancel.
    """
    text = lens.accepts("input_ids")
    sources: dict[Input, tuple[EncodedData, Blocks | None]] = {} if data is None else {"text": (data, None)}
    sizes: tuple[tuple[Input, int, int], ...] = (("twice", 50, 2), ("four times", 25, 4))
    for name, block, times in sizes:
        blocks = repeated_blocks(lens, block, times, seed=seed) if text else None
        if blocks is not None:
            sources[name] = (blocks.data, blocks)
    work = [(name, batch) for name, (examples, _) in sources.items() for batch in examples.batches(batch_size)]
    tallies = {name: _Tallies(lens, name, examples, blocks, text) for name, (examples, blocks) in sources.items()}
    for done, (name, batch) in enumerate(work):
        tallies[name].batch = batch
        with torch.inference_mode():
            lens.forward(batch.inputs, Run(on_pattern=tallies[name]))
        if on_progress is not None:
            on_progress(done + 1, len(work))
    scores: dict[str, dict[str, np.ndarray]] = {}
    examples_of: dict[str, dict[str, np.ndarray]] = {}
    for detector in DETECTORS.values():
        found = tallies[detector.looks_at].results(detector) if detector.looks_at in tallies else {}
        if found:
            scores[detector.name] = {site: score for site, (score, _) in found.items()}
            examples_of[detector.name] = {site: example for site, (_, example) in found.items()}
    return RoleScores(lens.topology, scores, examples_of, seed)


class _Tallies:
    """Receives patterns layer by layer and adds up what the detectors count in each example."""

    def __init__(self, lens: Lens, looks_at: Input, data: EncodedData, blocks: Blocks | None, text: bool) -> None:
        self.lens, self.data, self.blocks, self.text = lens, data, blocks, text
        self.detectors = [detector for detector in DETECTORS.values() if detector.looks_at == looks_at]
        self.batch: Batch | None = None
        self.kinds = _Kinds(lens.tokenizer)
        self.sums: dict[tuple[str, str], np.ndarray] = {}  # (role, site): [examples, layer, head, bins]
        self.counts: dict[tuple[str, str], np.ndarray] = {}  # [examples, layer]

    def __call__(self, site: str, layer: int, pattern: Tensor) -> None:
        shape = self.lens.topology.site(site).layers[layer]
        wanted = [detector for detector in self.detectors if self._makes_sense(detector, site, shape)]
        if not wanted or not shape.heads:
            return
        assert self.batch is not None
        seen = self._seen(site, shape, pattern, self.batch)
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

    def _seen(self, site: str, shape: LayerShape, pattern: Tensor, batch: Batch) -> Seen:
        key_site = "enc" if site == "cross" else site
        queries, keys = (batch.positions(s, n) for s, n in ((site, pattern.shape[-2]), (key_site, pattern.shape[-1])))
        ids = batch.inputs.get("decoder_input_ids" if key_site == "dec" else "input_ids")
        causal = shape.causal and site != "cross"
        if ids is None or self.lens.tokenizer is None or ids.shape[1] != pattern.shape[-1]:
            separators = punctuation = torch.zeros_like(keys)
        else:
            separators, punctuation = (mask & keys for mask in self.kinds.of(ids))
            separators[:, 0] = False
        repeat = None if self.blocks is None else self.blocks.of(site)
        return Seen(pattern, queries, keys, causal, separators, punctuation, repeat)

    def results(self, detector: Detector) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """By site the score ``[layer, head]`` and the example that shows it best ``[layer, head]``."""
        found = {}
        for (name, site), sums in self.sums.items():
            if name != detector.name:
                continue
            counts = self.counts[name, site]
            with np.errstate(invalid="ignore", divide="ignore"):
                score = detector.score(sums.sum(0), counts.sum(0)[:, None])
                each = detector.score(sums, counts[:, :, None])
            known = np.where(np.isfinite(each), each, -np.inf)
            best = np.where(np.isfinite(known).any(0), known.argmax(0), -1)
            found[site] = (np.where(np.isfinite(score), score, np.nan), best)
        return found


class _Kinds:
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
