"""Metrics by hand, and the error of a ratio against the bootstrap."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from headlens.data.encode import IGNORE, Batch
from headlens.errors import HeadlensError
from headlens.metrics import METRICS, metric_for, ratio, readout, reference, sums


def batch(targets: list[list[int]] | None, rows: int = 2, mask: list[list[int]] | None = None) -> Batch:
    inputs = {"input_ids": torch.ones(rows, 3, dtype=torch.long)}
    if mask is not None:
        inputs["attention_mask"] = torch.tensor(mask)
    return Batch(tuple(range(rows)), inputs, None if targets is None else torch.tensor(targets))


def test_loss_accuracy_and_drift_by_hand() -> None:
    logits = torch.log(torch.tensor([[[0.5, 0.5], [0.9, 0.1]], [[0.2, 0.8], [0.6, 0.4]]]))
    here = batch([[0, 1], [IGNORE, 0]])
    numerator, denominator = sums(METRICS["loss"], logits, here)
    assert numerator.tolist() == pytest.approx([-math.log(0.5) - math.log(0.1), -math.log(0.6)])
    assert denominator.tolist() == [2, 1]
    numerator, denominator = sums(METRICS["accuracy"], logits, here)
    assert numerator.tolist()[1] == 1
    assert denominator.tolist() == [2, 1]
    clean = torch.log(torch.tensor([[[0.25, 0.75], [0.9, 0.1]], [[0.5, 0.5], [0.5, 0.5]]]))
    numerator, _ = sums(METRICS["drift"], logits, here, reference(clean, here))
    first = 0.25 * math.log(0.25 / 0.5) + 0.75 * math.log(0.75 / 0.5)
    second = 0.5 * math.log(0.5 / 0.6) + 0.5 * math.log(0.5 / 0.4)
    assert numerator.tolist() == pytest.approx([first, second], rel=1e-5)


def test_rows_without_predictions_weigh_nothing() -> None:
    logits = torch.randn(3, 2, 5)
    here = batch([[IGNORE, IGNORE], [1, IGNORE], [IGNORE, IGNORE]], rows=3)
    for name in METRICS:
        numerator, denominator = sums(METRICS[name], logits, here, reference(logits, here))
        assert denominator.tolist() == [0, 1, 0]
        assert numerator[[0, 2]].tolist() == [0, 0]
    nothing = batch([[IGNORE, IGNORE]] * 3, rows=3)
    for name in METRICS:
        assert sums(METRICS[name], logits, nothing, reference(logits, nothing))[0].tolist() == [0, 0, 0]


def test_what_ignored_positions_hold_does_not_matter() -> None:
    logits = torch.randn(2, 2, 5)
    here = batch([[1, IGNORE], [2, 3]])
    broken = logits.clone()
    broken[0, 1] = float("nan")
    for name in METRICS:
        clean = reference(logits, here)
        assert torch.equal(sums(METRICS[name], broken, here, clean)[0], sums(METRICS[name], logits, here, clean)[0])


def test_embedding_drift_is_one_minus_cosine_of_the_means_over_real_positions() -> None:
    hidden = torch.tensor([[[1.0, 0.0], [3.0, 0.0], [float("nan"), 9.0]], [[0.0, 2.0], [2.0, 0.0], [1.0, 1.0]]])
    here = batch(None, mask=[[1, 1, 0], [1, 1, 1]])
    clean = torch.tensor([[0.0, 5.0], [4.0, 4.0]], dtype=torch.float64)
    numerator, denominator = sums(METRICS["drift"], hidden, here, clean)
    assert numerator.tolist() == pytest.approx([1.0, 0.0], abs=1e-12)
    assert denominator.tolist() == [1, 1]
    assert torch.equal(reference(hidden, here)[0], torch.tensor([2.0, 0.0], dtype=torch.float64))


def test_scoring_in_portions_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    logits, clean = torch.randn(4, 6, 9, dtype=torch.float64), torch.randn(4, 6, 9, dtype=torch.float64)
    here = batch(torch.randint(0, 9, (4, 6)).tolist(), rows=4)
    whole = {name: sums(METRICS[name], logits, here, reference(clean, here))[0] for name in METRICS}
    monkeypatch.setattr("headlens.metrics._CHUNK_BYTES", 5 * 4 * 9)
    for name, expected in whole.items():
        found = sums(METRICS[name], logits, here, reference(clean, here))[0]
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


def test_half_precision_is_widened_before_the_logarithm() -> None:
    logits = torch.randn(2, 2, 50, generator=torch.Generator().manual_seed(0)).bfloat16()
    here = batch([[3, 4], [5, 6]])
    for name in ("loss", "drift"):
        clean = reference(logits.flip(-1), here)
        exact = reference(logits.flip(-1).double(), here)
        found, expected = (
            sums(METRICS[name], logits, here, clean)[0],
            sums(METRICS[name], logits.double(), here, exact)[0],
        )
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


def test_the_metric_of_a_task() -> None:
    assert metric_for(None, "causal-lm").name == "loss"
    assert metric_for(None, "embedding").name == "drift"
    assert metric_for("accuracy", "seq2seq").name == "accuracy"
    with pytest.raises(HeadlensError, match="no task head; use --metric drift"):
        metric_for("loss", "embedding")
    with pytest.raises(HeadlensError, match="unknown metric 'perplexity'; choose one of loss, accuracy, drift"):
        metric_for("perplexity", "causal-lm")


def test_readout_gives_classes_one_position() -> None:
    output = type("Output", (), {"logits": torch.zeros(4, 3), "last_hidden_state": torch.zeros(4, 7, 2)})()
    assert readout(output, "text-classification").shape == (4, 1, 3)
    assert readout(output, "embedding").shape == (4, 7, 2)


def test_sem_of_equal_weights_is_s_over_root_n() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(30, 2, 3))
    for weight in (1, 7):
        found, sem = ratio(values * weight, np.full(30, float(weight)))
        np.testing.assert_allclose(found, values.mean(0))
        np.testing.assert_allclose(sem, values.std(0, ddof=1) / np.sqrt(30))


def test_sem_agrees_with_the_bootstrap() -> None:
    rng = np.random.default_rng(1)
    weight = rng.integers(1, 40, size=200).astype(float)
    effect = rng.normal(0.2, 1.0, size=200) * weight + rng.normal(size=200) * np.sqrt(weight)
    _, sem = ratio(effect[:, None], weight)
    draws = rng.integers(0, 200, size=(6000, 200))
    bootstrap = (effect[draws].sum(1) / weight[draws].sum(1)).std()
    assert sem[0] == pytest.approx(bootstrap, rel=0.04)
    # Examples without predictions are no evidence.
    padded, weights = np.concatenate([effect, np.zeros(50)]), np.concatenate([weight, np.zeros(50)])
    assert ratio(padded[:, None], weights)[1][0] == pytest.approx(sem[0], rel=1e-12)


def test_sem_needs_two_examples() -> None:
    value, sem = ratio(np.array([[2.0], [0.0]]), np.array([4.0, 0.0]))
    assert value[0] == 0.5
    assert np.isnan(sem[0])
