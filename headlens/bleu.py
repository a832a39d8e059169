"""BLEU of greedy translations (or summaries), with all heads on and with some off."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from headlens.errors import DataError, HeadlensError
from headlens.heads import HeadSet
from headlens.models.quiet import quiet

if TYPE_CHECKING:
    from headlens.data.dataset import DataSet
    from headlens.lens import Lens

SPARE_TOKENS = 8
"""How many tokens longer than the longest target an output may get: room to be wrong, not to run on."""


@dataclass(frozen=True)
class BleuResult:
    """Corpus BLEU, 0 to 100.

    Attributes:
        baseline, value: with every head on, and with some off.
        outputs_baseline, outputs: the generated texts, in the order of the data.
    """

    baseline: float
    value: float
    outputs_baseline: tuple[str, ...]
    outputs: tuple[str, ...]


def bleu(
    lens: Lens,
    data: DataSet,
    off: HeadSet,
    *,
    max_tokens: int = 128,
    batch_size: int = 8,
    on_progress: Callable[[int, int], None] | None = None,
) -> BleuResult:
    """Generates greedily (one beam, no sampling) and compares with the targets by sacrebleu, default tokenizer.

    Args:
        lens: an encoder-decoder model.
        data: pairs; sources are cut at ``max_tokens`` tokens, targets are compared whole.
        off: heads that are off, zero-ablated, in the encoder and at every step of the decoder.
        max_tokens: cut of each source; also bounds the outputs.
        batch_size: sources at a time.
        on_progress: called with (done, total) batches.

    Raises:
        HeadlensError: no encoder-decoder model.
        DataError: no pairs.
    """
    if lens.task != "seq2seq" or lens.tokenizer is None:
        raise HeadlensError(f"metric 'bleu' needs an encoder-decoder model, and {lens.name} is {lens.task}")
    if data.kind != "pairs" or not data.examples:
        raise DataError(f"{data.name}: BLEU needs pairs of source and target")
    from sacrebleu import corpus_bleu

    references = [example.target or "" for example in data.examples]
    runs = [HeadSet(), off] if len(off) else [HeadSet()]
    steps = _Steps(len(runs) * -(-len(references) // batch_size), on_progress)
    outputs = [generate(lens, data, heads, max_tokens, batch_size, steps) for heads in runs]
    scores = [corpus_bleu(texts, [references]).score for texts in outputs]
    return BleuResult(scores[0], scores[-1], tuple(outputs[0]), tuple(outputs[-1]))


@dataclass
class _Steps:
    total: int
    on_progress: Callable[[int, int], None] | None
    done: int = 0

    def __call__(self) -> None:
        self.done += 1
        if self.on_progress is not None:
            self.on_progress(self.done, self.total)


def generate(
    lens: Lens, data: DataSet, off: HeadSet, max_tokens: int, batch_size: int, finished: Callable[[], None]
) -> list[str]:
    """One greedy output for each example, in order, with ``off`` zero-ablated; calls ``finished`` after each batch."""
    model: Any = lens.model
    tokenizer: Any = lens.tokenizer
    limit = min(max_tokens, lens.max_positions or max_tokens)
    targets = tokenizer(text_target=[e.target or "" for e in data.examples], truncation=True, max_length=limit)
    longest = max(len(ids) for ids in targets["input_ids"]) + SPARE_TOKENS
    length = min(longest, lens.max_positions - 1) if lens.max_positions else longest
    sources = [example.source or "" for example in data.examples]
    found = []
    for start in range(0, len(sources), batch_size):
        inputs = tokenizer(
            sources[start : start + batch_size],
            truncation=True,
            max_length=limit,
            padding=True,
            padding_side="right",
            return_tensors="pt",
        )
        wanted = {name: inputs[name].to(lens.device) for name in ("input_ids", "attention_mask")}
        # quiet: generation warns where a model's own settings (a beam width, a length) are overruled, as here
        with torch.inference_mode(), lens.off(off), quiet():
            ids = model.generate(
                **wanted, max_new_tokens=length, min_length=0, do_sample=False, num_beams=1, use_cache=True
            )
        found.extend(tokenizer.batch_decode(ids, skip_special_tokens=True))
        finished()
    return found
