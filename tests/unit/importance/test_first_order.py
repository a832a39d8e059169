"""Gradient and Fisher scores against finite differences of copies whose W_O columns are scaled."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from headlens.data.encode import EncodedData
from headlens.errors import HeadlensError
from headlens.importance import METHODS, Request
from headlens.importance.score import score
from headlens.metrics import METRICS
from headlens.scores import HeadScores
from tests.unit.helpers import KINDS, LAYERS, Oracle, core, lens_for, places, random_data

LOSS = METRICS["loss"]
WITH_LOSS = [kind for kind in KINDS if kind != "bert-bare"]


def derivative(oracle: Oracle, data: EncodedData, gates: list[tuple[str, int, int]], step: float) -> np.ndarray:
    """Central difference of each example's summed NLL when the gates move together, ``[examples]``."""
    clean = oracle.outputs(data)
    sides = [
        oracle.sums("loss", data, oracle.outputs(data, oracle.scaled(dict.fromkeys(gates, 1 + e))), clean)[:, 0]
        for e in (step, -step)
    ]
    return (sides[0] - sides[1]) / (2 * step)


@pytest.mark.parametrize("kind", WITH_LOSS)
def test_equals_finite_differences(kind: str) -> None:
    lens, plain = lens_for(kind)
    oracle, data = Oracle(kind, plain), random_data(kind)
    request = Request(LOSS, data)
    unsigned = score(lens, METHODS["gradient"], request)
    signed = score(lens, METHODS["gradient"], replace(request, signed=True))
    fisher = score(lens, METHODS["fisher"], request)
    # T5 rounds its softmax to float32, so its step must be wider.
    step, tolerance = (3e-3, 3e-4) if kind == "t5" else (1e-4, 1e-7)
    tokens = sum(example.predicted for example in data.examples)
    for site, layer, head in places(kind)[::3]:
        slopes = derivative(oracle, data, [(site, layer, head)], step)
        found = [scores.values[site][layer, head] for scores in (unsigned, signed, fisher)]
        expected = [np.abs(slopes).sum() / tokens, -slopes.sum() / tokens, (slopes**2).mean()]
        np.testing.assert_allclose(found, expected, rtol=100 * tolerance, atol=tolerance)
    assert np.abs(unsigned.flat()).min() > 1e-4


def test_kv_unit_is_the_slope_of_a_common_gate() -> None:
    lens, plain = lens_for("llama")
    oracle, data = Oracle("llama", plain), random_data("llama")
    tokens = sum(example.predicted for example in data.examples)
    request = Request(LOSS, data, unit="kv")
    unsigned, fisher = (score(lens, METHODS[name], request) for name in ("gradient", "fisher"))
    heads = score(lens, METHODS["gradient"], Request(LOSS, data)).array
    for layer, group in ((0, 0), (1, 1), (2, 0)):
        members = [("self", layer, 2 * group), ("self", layer, 2 * group + 1)]
        slopes = derivative(oracle, data, members, 1e-4)
        np.testing.assert_allclose(unsigned.array[layer, group], np.abs(slopes).sum() / tokens, atol=1e-7)
        np.testing.assert_allclose(fisher.array[layer, group], (slopes**2).mean(), atol=1e-6)
    assert not np.allclose(unsigned.array, heads.reshape(LAYERS, 2, 2).sum(-1))


def test_signed_score_is_the_first_order_of_ablation() -> None:
    """It predicts the loss after closing the gate by a little, and after closing it fully where heads write little."""
    lens, plain = lens_for("gpt2")
    oracle, data = Oracle("gpt2", plain), random_data("gpt2", 8)
    signed = score(lens, METHODS["gradient"], Request(LOSS, data, signed=True))
    clean = oracle.outputs(data)
    before = oracle.value("loss", data, clean, clean)
    for step in (1e-2, 1e-3):
        for site, layer, head in places("gpt2")[::4]:
            part = oracle.outputs(data, oracle.scaled({(site, layer, head): 1 - step}))
            rise = (oracle.value("loss", data, part, clean) - before) / step
            assert abs(rise - signed.array[layer, head]) < 5 * step
    # Heads that write little change the loss linearly: there ablation and its first-order estimate are the same.
    for block in core(lens).h:
        block.attn.c_proj.weight.data *= 0.01
    request = Request(LOSS, data, signed=True)
    first, exact = (score(lens, METHODS[name], request).flat() for name in ("gradient", "ablation"))
    assert np.corrcoef(first, exact)[0, 1] > 0.99
    np.testing.assert_allclose(first, exact, atol=0.1 * np.abs(exact).max())


def test_equals_z_times_its_gradient() -> None:
    """Michel et al. 2019: I_h = |sum_t z_t . dL/dz_t|, taken here with autograd on the plain model."""
    lens, plain = lens_for("llama")
    oracle, data = Oracle("llama", plain), random_data("llama")
    tokens = sum(example.predicted for example in data.examples)
    total = np.zeros((LAYERS, 4))
    for example in data.examples:
        kept: dict[int, torch.Tensor] = {}

        def hook(layer: int, module: object, args: tuple[torch.Tensor, ...], kept: dict = kept) -> tuple:
            kept[layer] = args[0].detach().requires_grad_() if layer == 0 else args[0]
            kept[layer].retain_grad()
            return (kept[layer],)

        handles = [
            oracle.projection("self", layer).register_forward_pre_hook(partial(hook, layer)) for layer in range(LAYERS)
        ]
        logits = plain(example.inputs["input_ids"][None]).logits[0, :-1]
        torch.nn.functional.cross_entropy(logits, example.inputs["input_ids"][1:], reduction="sum").backward()
        for handle in handles:
            handle.remove()
        for layer, z in kept.items():
            assert z.grad is not None
            total[layer] += (z.detach() * z.grad).unflatten(-1, (4, -1)).sum((0, 1, 3)).abs().numpy()
    found = score(lens, METHODS["gradient"], Request(LOSS, data)).array
    np.testing.assert_allclose(found, total / tokens, atol=1e-12)


def same(a: HeadScores, b: HeadScores, tolerance: float = 1e-11) -> None:
    np.testing.assert_allclose(a.flat(), b.flat(), atol=tolerance)
    for site in a.values:
        np.testing.assert_allclose(a.sem[site], b.sem[site], atol=tolerance)
    assert a.reliability == pytest.approx(b.reliability, abs=1e-12)


@pytest.mark.parametrize("name", sorted(set(METHODS) - {"ablation"}))
def test_batch_size_and_order_change_nothing(name: str) -> None:
    for kind in ("gpt2", "t5"):
        lens, _ = lens_for(kind)
        data = random_data(kind)
        shuffled = replace(data, examples=tuple(data.examples[i] for i in (3, 0, 4, 2, 1)), pad=9)
        one = score(lens, METHODS[name], Request(LOSS, data, batch_size=1))
        # T5's softmax and the patterns are float32.
        tolerance = 1e-5 if kind == "t5" or name == "confidence" else 1e-11
        for batch_size in (2, 5):
            same(one, score(lens, METHODS[name], Request(LOSS, data, batch_size=batch_size)), tolerance)
        same(one, score(lens, METHODS[name], Request(LOSS, shuffled, batch_size=2)), tolerance)


@pytest.mark.parametrize("name", ["gradient", "fisher"])
@pytest.mark.parametrize("metric", ["drift", "accuracy"])
def test_metrics_without_a_slope_are_refused(name: str, metric: str) -> None:
    lens, _ = lens_for("gpt2")
    for signed in (False, True):
        with pytest.raises(HeadlensError) as caught:
            score(lens, METHODS[name], Request(METRICS[metric], random_data("gpt2"), signed=signed))
        assert metric in str(caught.value)
        assert "--method ablation" in str(caught.value)


def test_no_gradient_is_left_on_the_model_and_it_stays_frozen() -> None:
    lens, _ = lens_for("gpt2")
    score(lens, METHODS["gradient"], Request(LOSS, random_data("gpt2")))
    assert all(not p.requires_grad and p.grad is None for p in lens.model.parameters())
