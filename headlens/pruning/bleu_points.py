"""BLEU of many head sets, each with the error of its difference from all heads on.

What counts is kept for each example (matching and all n-grams, lengths), so the corpus score is that of sacrebleu and a
bootstrap over examples needs no further translation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from headlens.bleu import generate
from headlens.errors import DataError, HeadlensError
from headlens.evaluate import Measured
from headlens.heads import HeadSet
from headlens.store import unit_key

if TYPE_CHECKING:
    from headlens.data.dataset import DataSet
    from headlens.lens import Lens
    from headlens.store import Store

RESAMPLES = 1000
"""As in Koehn 2004 and Michel et al. 2019."""
_ORDERS = 4


@dataclass
class BleuMeasure:
    """Measures BLEU of greedy outputs.

    Attributes:
        lens: an encoder-decoder model.
        data: pairs.
        max_tokens: cut of each source; also bounds the outputs.
        batch_size: sources at a time.
        seed: draws the bootstrap samples.
        store, resume: where finished sets are kept, and whether to take them from there.
        on_progress: called with (done, total) batches; may raise to cancel.
    """

    lens: Lens
    data: DataSet
    max_tokens: int = 128
    batch_size: int = 16
    seed: int = 0
    store: Store | None = None
    resume: bool = True
    on_progress: Callable[[int, int], None] | None = None

    def __post_init__(self) -> None:
        if self.lens.task != "seq2seq" or self.lens.tokenizer is None:
            raise HeadlensError(f"metric 'bleu' needs an encoder-decoder model, and {self.lens.name} is not one")
        if self.data.kind != "pairs" or not self.data.examples:
            raise DataError(f"{self.data.name}: BLEU needs pairs of source and target")

    def measure(self, sets: Iterable[HeadSet]) -> dict[HeadSet, Measured]:
        """BLEU with each set off against all on; errors by paired bootstrap over examples."""
        wanted = list(dict.fromkeys([HeadSet(), *sets]))
        batches = -(-len(self.data.examples) // self.batch_size)
        counts = {}
        for number, off in enumerate(wanted):
            done = number * batches
            counts[off] = self._counts(off, done, len(wanted) * batches)
        examples = len(self.data.examples)
        drawn = np.random.default_rng(self.seed).integers(0, examples, size=(RESAMPLES, examples))
        scores = {off: bleu_of(found.sum(0)) for off, found in counts.items()}
        samples = {off: np.array([bleu_of(found[rows].sum(0)) for rows in drawn]) for off, found in counts.items()}
        return {off: self._measured(off, scores, samples) for off in wanted}

    def _measured(self, off: HeadSet, scores: dict[HeadSet, float], samples: dict[HeadSet, np.ndarray]) -> Measured:
        none = HeadSet()
        parts = (samples[none], samples[off], samples[off] - samples[none])
        single = len(self.data.examples) < 2
        errors = [float("nan") if single else float(part.std(ddof=1)) for part in parts]
        return Measured(scores[none], scores[off], errors[0], errors[1], errors[2])

    def _counts(self, off: HeadSet, done: int, total: int) -> np.ndarray:
        """What BLEU counts in each example, int64 ``[examples, 10]``."""
        key = self._key(off)
        found = self.store.get(key) if self.store and self.resume else None
        if found is None:
            steps = iter(range(done + 1, total + 1))
            texts = generate(
                self.lens, self.data, off, self.max_tokens, self.batch_size, lambda: self._report(next(steps), total)
            )
            pairs = zip(texts, self.data.examples, strict=True)
            found = {"counts": np.stack([sentence_counts(text, example.target or "") for text, example in pairs])}
            if self.store:
                self.store.put(key, found)
        else:
            self._report(done + -(-len(self.data.examples) // self.batch_size), total)
        return found["counts"]

    def _key(self, off: HeadSet) -> str:
        return unit_key(
            kind="bleu",
            model=self.lens.fingerprint,
            dtype=str(self.lens.dtype),
            pairs=[[example.source, example.target] for example in self.data.examples],
            max_tokens=self.max_tokens,
            off=self.lens.topology.format(off),
        )

    def _report(self, done: int, total: int) -> None:
        if self.on_progress is not None:
            self.on_progress(done, total)


def sentence_counts(text: str, target: str) -> np.ndarray:
    """What BLEU counts in one sentence: matching n-grams (4), n-grams (4), length, length of the target ``[10]``."""
    from sacrebleu.metrics.bleu import BLEU

    found: Any = BLEU(effective_order=True).sentence_score(text, [target])
    return np.array([*found.counts, *found.totals, found.sys_len, found.ref_len], dtype=np.int64)


def bleu_of(counts: np.ndarray) -> float:
    """Corpus BLEU, 0 to 100, of summed counts ``[10]`` (sacrebleu's, with its default smoothing)."""
    from sacrebleu.metrics.bleu import BLEU

    correct, total = counts[:_ORDERS].tolist(), counts[_ORDERS : 2 * _ORDERS].tolist()
    lengths: list[int] = counts[2 * _ORDERS :].tolist()
    return float(BLEU.compute_bleu(correct, total, lengths[0], lengths[1], smooth_method="exp").score)
