"""The figures of a report: those of evaluate, and paired intervals of the changes."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats

from headlens.data.encode import encode
from headlens.data.select import load_data
from headlens.evaluate import evaluate
from headlens.heads import HeadSet
from headlens.metrics import METRICS
from headlens.report.models import Subjects
from headlens.report.quality import quality


def test_values_are_those_of_evaluate_and_changes_are_paired(subjects: Subjects, text: Path) -> None:
    data = encode(subjects.full.lens, load_data(str(text), task="causal-lm", split="held-out"))
    found = quality(subjects, data)
    for one in subjects.all:
        wanted = evaluate(one.lens, data, HeadSet(), metric=METRICS["loss"])
        for name in ("loss", "accuracy"):
            figure = found.figures[name, one.role]
            assert (figure.value, figure.sem) == (wanted.measured[name].value, wanted.measured[name].sem)
        assert found.figures["perplexity", one.role].value == pytest.approx(math.exp(wanted.main.value))

    # The interval of the change, by hand: one example at a time, a ratio of sums, Student's t.
    differences, counts = [], []
    for example in data.examples:
        ids = example.inputs["input_ids"][None]
        nll = []
        for one in (subjects.full, subjects.cut):
            assert one is not None
            with torch.no_grad():
                logits = one.lens.model(input_ids=ids).logits[0, :-1].double()
            nll.append(float(torch.nn.functional.cross_entropy(logits, ids[0, 1:], reduction="sum")))
        differences.append(nll[1] - nll[0])
        counts.append(ids.shape[1] - 1)
    a, b = np.array(differences), np.array(counts)
    change = a.sum() / b.sum()
    error = math.sqrt(len(a) / (len(a) - 1) * ((a - change * b) ** 2).sum()) / b.sum()
    reach = stats.t.ppf(0.975, len(a) - 1) * error
    figure = found.figures["loss", "cut"]
    assert figure.delta == pytest.approx(change, rel=1e-5)
    assert (figure.low, figure.high) == pytest.approx((change - reach, change + reach), rel=1e-4)
    assert figure.clear
    assert found.figures["drift", "full"].value == 0
    assert math.isnan(found.figures["drift", "cut"].delta)
    assert math.isnan(found.figures["loss", "full"].low)


def test_the_sentence_has_the_numbers(subjects: Subjects, text: Path) -> None:
    data = encode(subjects.full.lens, load_data(str(text), task="causal-lm", split="held-out"))
    found = quality(subjects, data)
    said = found.sentence()
    for one in subjects.all:
        assert f"{found.figures['loss', one.role].value:.4g}" in said
    assert f"{found.figures['loss', 'cut'].delta:+.3g}" in said
    assert "60 held-out examples" in said


def test_one_example_gives_no_error_bar(subjects: Subjects, tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_text("a b a b c\n", encoding="utf-8")
    data = encode(subjects.full.lens, load_data(str(tmp_path / "one.txt"), task="causal-lm"))
    said = quality(subjects, data).sentence()
    assert "nan" not in said
    assert "1 held-out example:" in said
    assert said.endswith("which may be chance. One example gives no error bar.")
