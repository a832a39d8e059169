"""Magnitudes by hand from the state dict, watching methods by loops over a plain eager model, and the control."""

from __future__ import annotations

import copy
from typing import Any, cast

import numpy as np
import pytest
import torch

from headlens.errors import HeadlensError
from headlens.importance import METHODS, Request, method_for
from headlens.importance.score import score
from headlens.metrics import METRICS
from tests.unit.helpers import D_HEAD, LAYERS, Oracle, lens_for, places, random_data

LOSS = METRICS["loss"]


def test_magnitude_is_the_norm_of_the_slice() -> None:
    for kind, name, conv in (
        ("gpt2", "transformer.h.{}.attn.c_proj.weight", True),
        ("llama", "model.layers.{}.self_attn.o_proj.weight", False),
        ("t5", "decoder.block.{}.layer.1.EncDecAttention.o.weight", False),
    ):
        lens, plain = lens_for(kind, dtype=torch.float32)
        scores = score(lens, METHODS["magnitude"], Request(LOSS))
        array = scores.values["cross" if kind == "t5" else "self"]
        for layer in range(LAYERS):
            weight = plain.state_dict()[name.format(layer)]
            for head in range(4):
                columns = slice(D_HEAD * head, D_HEAD * (head + 1))
                part = (weight[columns] if conv else weight[:, columns]).numpy().astype(np.float64)
                assert array[layer, head] == pytest.approx(np.sqrt((part**2).sum()), rel=1e-6)
        assert scores.n == 0
        assert scores.metric is None
        assert scores.reliability is None


def test_magnitude_of_a_group_is_the_norm_of_its_slices_together() -> None:
    lens, plain = lens_for("llama", dtype=torch.float32)
    array = score(lens, METHODS["magnitude"], Request(LOSS, unit="kv")).array
    weight = plain.state_dict()["model.layers.1.self_attn.o_proj.weight"].numpy()
    expected = [np.linalg.norm(weight[:, 8 * group : 8 * group + 8]) for group in (0, 1)]
    np.testing.assert_allclose(array[1], expected, rtol=1e-6)


def test_ov_magnitude_multiplies_the_matrices() -> None:
    lens, plain = lens_for("llama", dtype=torch.float32)
    array = score(lens, METHODS["magnitude-ov"], Request(LOSS)).array
    state = {name: value.numpy().astype(np.float64) for name, value in plain.state_dict().items()}
    for layer in range(LAYERS):
        value, out = (state[f"model.layers.{layer}.self_attn.{n}_proj.weight"] for n in ("v", "o"))
        for head in range(4):
            group = head // 2  # query heads 0, 1 read KV head 0
            w_v = value[D_HEAD * group : D_HEAD * (group + 1)].T
            w_o = out[:, D_HEAD * head : D_HEAD * (head + 1)].T
            assert array[layer, head] == pytest.approx(np.linalg.norm(w_v @ w_o), rel=1e-5)
    lens, plain = lens_for("gpt2", dtype=torch.float32)
    array = score(lens, METHODS["magnitude-ov"], Request(LOSS)).array
    state = {name: value.numpy().astype(np.float64) for name, value in plain.state_dict().items()}
    w_v = state["transformer.h.2.attn.c_attn.weight"][:, 32:48][:, 4:8]
    w_o = state["transformer.h.2.attn.c_proj.weight"][4:8]
    assert array[2, 1] == pytest.approx(np.linalg.norm(w_v @ w_o), rel=1e-5)


@pytest.mark.parametrize("kind", ["gpt2", "llama", "t5", "bert-bare"])
def test_output_norm_by_explicit_loops(kind: str) -> None:
    lens, plain = lens_for(kind)
    oracle, data = Oracle(kind, plain), random_data(kind)
    scores = score(lens, METHODS["output-norm"], Request(METRICS["drift"], data, batch_size=3))
    groups = score(lens, METHODS["output-norm"], Request(METRICS["drift"], data, unit="kv"))
    for site, layer, head in places(kind)[::5]:
        module: Any = oracle.projection(site, layer)
        weight = module.weight if kind == "gpt2" else module.weight.T
        w_o = weight[D_HEAD * head : D_HEAD * (head + 1)]
        lengths, both = [], []
        for z in oracle.z(data, site, layer):
            for position in z:
                lengths.append(float((position[head] @ w_o).norm()))
                first = head - head % 2
                pair = [position[h] @ weight[D_HEAD * h : D_HEAD * (h + 1)] for h in (first, first + 1)]
                both.append(float((pair[0] + pair[1]).norm()))
        assert scores.values[site][layer, head] == pytest.approx(np.mean(lengths), rel=1e-5)
        if kind == "llama":
            assert groups.values[site][layer, head // 2] == pytest.approx(np.mean(both), rel=1e-5)
    assert scores.n == len(data)


class EndToken:
    """As much of a tokenizer as is needed."""

    eos_token_id = 5
    all_special_ids = (5,)


@pytest.mark.parametrize("kind", ["gpt2", "llama", "t5", "bert-bare"])
@pytest.mark.parametrize("end", [None, 5])
def test_confidence_by_eager_attentions(kind: str, end: int | None) -> None:
    lens, plain = lens_for(kind)
    if end is not None:
        lens.tokenizer = cast(Any, EndToken())
    data = random_data(kind)
    eager = copy.deepcopy(plain)
    eager.set_attn_implementation("eager")
    scores = score(lens, METHODS["confidence"], Request(METRICS["drift"], data, batch_size=3))
    found: dict[tuple[str, int, int], list[float]] = {}
    for example in data.examples:
        inputs = {name: value[None] for name, value in example.inputs.items()}
        with torch.no_grad():
            output: Any = eager(**inputs, output_attentions=True, use_cache=False)
        encoder, decoder = inputs["input_ids"][0], inputs.get("decoder_input_ids", inputs["input_ids"])[0]
        stacks = {"self": (output.get("attentions"), encoder, encoder)}
        if kind == "t5":
            stacks = {
                "enc": (output.encoder_attentions, encoder, encoder),
                "dec": (output.decoder_attentions, decoder, decoder),
                "cross": (output.cross_attentions, decoder, encoder),
            }
        for site, (attentions, queries, keys) in stacks.items():
            for layer, pattern in enumerate(attentions):
                for head in range(4):
                    for q, query in enumerate(queries.tolist()):
                        weights = [float(pattern[0, head, q, k]) for k, key in enumerate(keys.tolist()) if key != end]
                        if query != end:
                            found.setdefault((site, layer, head), []).append(max(weights, default=0.0))
    assert len(found) == len(places(kind))
    for (site, layer, head), largest in found.items():
        assert scores.values[site][layer, head] == pytest.approx(np.mean(largest), abs=2e-6)


def test_random_is_seeded_and_knows_nothing() -> None:
    lens, _ = lens_for("gpt2")
    draws = [score(lens, METHODS["random"], Request(LOSS, seed=seed)).array for seed in (0, 0, 1)]
    np.testing.assert_array_equal(draws[0], draws[1])
    assert not np.array_equal(draws[0], draws[2])
    assert np.all((draws[0] >= 0) & (draws[0] < 1))


def test_methods_that_need_data_say_so() -> None:
    lens, _ = lens_for("gpt2")
    for name, method in METHODS.items():
        if "data" in method.needs:
            with pytest.raises(HeadlensError, match="--data"):
                score(lens, method, Request(LOSS))
        else:
            assert score(lens, METHODS[name], Request(LOSS)).n == 0


def test_the_registry() -> None:
    assert {"ablation", "gradient", "magnitude", "output-norm", "fisher", "confidence", "random"} <= set(METHODS)
    for name, method in METHODS.items():
        row = method.describe()
        assert list(row) == ["name", "title", "formula", "needs", "signed", "cost", "source"]
        assert row["name"] == name
        assert all(row[key] for key in ("title", "formula", "source", "cost"))
    with pytest.raises(HeadlensError, match="did you mean gradient"):
        method_for("gradients")
    with pytest.raises(HeadlensError, match="choose one of ablation"):
        method_for("")
