"""BLEU from counts kept for each sentence, against sacrebleu on whole texts."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from sacrebleu import corpus_bleu

from headlens.data.dataset import DataSet, Example
from headlens.errors import HeadlensError
from headlens.heads import Head, HeadSet
from headlens.pruning import bleu_points
from headlens.pruning.bleu_points import RESAMPLES, BleuMeasure, bleu_of, sentence_counts
from headlens.store import Store

TARGETS = [
    "the small dog sat on the old mat in the sun",
    "a bird sang to the cat, and the cat slept",
    "we walked home before it began to rain",
    "nobody knew who had opened the window",
    "the train was late again this morning",
]
GOOD = [
    "the small dog sat on an old mat in the sun",
    "a bird sang to the cat and the cat slept",
    "we walked home before the rain began",
    "nobody knew who opened the window",
    "the train was late this morning",
]
BAD = ["the dog the dog", "a bird sang", "", "window window the window", "the train was late again"]


@pytest.mark.parametrize("outputs", [GOOD, BAD, TARGETS, [""] * 5])
def test_the_corpus_score_is_that_of_sacrebleu(outputs: list[str]) -> None:
    counts = sum(sentence_counts(text, target) for text, target in zip(outputs, TARGETS, strict=True))
    assert bleu_of(np.asarray(counts)) == pytest.approx(corpus_bleu(outputs, [TARGETS]).score, abs=1e-9)


def measure(monkeypatch: pytest.MonkeyPatch, store: Store | None = None) -> tuple[Any, list[int]]:
    """A measure whose model writes GOOD with every head on and BAD with any off."""
    calls: list[int] = []

    def write(lens: Any, data: Any, off: HeadSet, length: int, size: int, finished: Any) -> list[str]:
        calls.append(len(off))
        for _ in range(-(-len(data.examples) // size)):
            finished()
        return BAD if len(off) else GOOD

    monkeypatch.setattr(bleu_points, "generate", write)
    topology = SimpleNamespace(format=lambda off: ",".join(head.label for head in off))
    lens = SimpleNamespace(task="seq2seq", tokenizer=1, name="made up", fingerprint="f", dtype="d", topology=topology)
    data = DataSet("made up", "pairs", "all", tuple(Example(source="x", target=target) for target in TARGETS))
    return BleuMeasure(cast(Any, lens), data, batch_size=2, seed=4, store=store), calls


def test_paired_bootstrap(monkeypatch: pytest.MonkeyPatch) -> None:
    work, _ = measure(monkeypatch)
    off = HeadSet.of([Head("cross", 0, 0)])
    found = work.measure([off])[off]
    assert found.baseline == pytest.approx(corpus_bleu(GOOD, [TARGETS]).score)
    assert found.value == pytest.approx(corpus_bleu(BAD, [TARGETS]).score)
    drawn = np.random.default_rng(4).integers(0, 5, size=(RESAMPLES, 5))

    def score(texts: list[str], rows: np.ndarray) -> float:
        return corpus_bleu([texts[i] for i in rows], [[TARGETS[i] for i in rows]]).score

    differences = [score(BAD, rows) - score(GOOD, rows) for rows in drawn]
    assert found.delta_sem == pytest.approx(np.std(differences, ddof=1), rel=1e-9)
    assert work.measure([off])[HeadSet()].delta_sem == 0


def test_finished_sets_are_not_translated_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    sets = [HeadSet.of([Head("cross", 0, head)]) for head in range(3)]
    work, calls = measure(monkeypatch, Store(tmp_path))
    seen: list[tuple[int, int]] = []
    work.on_progress = lambda *at: seen.append(at)
    first = work.measure(sets[:2])
    assert calls == [0, 1, 1]
    assert seen == [(n, 9) for n in range(1, 10)]
    again, calls = measure(monkeypatch, Store(tmp_path))
    second = again.measure(sets)
    assert calls == [1]
    assert {off: second[off] for off in first} == first


def test_only_for_models_that_write_from_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    work, _ = measure(monkeypatch)
    with pytest.raises(HeadlensError, match="needs pairs"):
        BleuMeasure(work.lens, DataSet("x", "text", "all", (Example(text="x"),)))
    lens = SimpleNamespace(task="causal-lm", tokenizer=1, name="made up")
    with pytest.raises(HeadlensError, match="needs an encoder-decoder model"):
        BleuMeasure(cast(Any, lens), work.data)
