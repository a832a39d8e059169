"""The lab's models against plain transformers, zeroed weights and a formula."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch

from headlens.lab.cost import parameters
from headlens.lab.looking import attention_by_distance
from headlens.lab.model import LabModel, build, cut
from headlens.lab.pruning import Bench
from headlens.lab.specs import SHAPES, Architecture, Shape, Task

TASK = Task((1, 3), length=10)


def spread(shape: Shape, heads: int = 5) -> LabModel:
    """A model whose weights are far enough from zero that heads differ."""
    model = build(TASK, Architecture(heads, shape, d_head=4, width=16, mlp=24), 3)
    source = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn(weight.shape, generator=source) * 0.4)
    return model.eval()


def switched_by_weights(model: LabModel, keep: tuple[int, ...], tokens: torch.Tensor) -> torch.Tensor:
    """Read-out of a copy in which the other heads' part of the output projection is zero."""
    changed = copy.deepcopy(model)
    d_head = model.architecture.d_head
    with torch.no_grad():
        for head in set(range(model.architecture.heads)) - set(keep):
            changed.layer.self_attn.o_proj.weight[:, head * d_head : (head + 1) * d_head] = 0
        return changed(tokens)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("keep", [(0, 1, 2, 3, 4), (1, 4), (2,), ()])
def test_switched_heads_equal_zeroed_weights(shape: Shape, keep: tuple[int, ...]) -> None:
    model = spread(shape)
    bench = Bench(model, "test", 6)
    expected = switched_by_weights(model, keep, bench.tokens)
    assert torch.allclose(bench.logits(keep), expected, atol=1e-5)
    assert bench.losses([keep, (0,)])[0] == pytest.approx(bench.loss(keep).bits, abs=1e-6)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_cut_model_equals_the_switched_one(shape: Shape) -> None:
    model = spread(shape)
    bench = Bench(model, "test", 6)
    small = cut(model, (4, 1, 2))
    assert small.architecture.heads == 3
    with torch.no_grad():
        assert torch.allclose(small(bench.tokens), switched_by_weights(model, (1, 2, 4), bench.tokens), atol=1e-5)
    with pytest.raises(ValueError, match="not a choice"):
        cut(model, (1, 1))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("heads", [1, 3, 8])
def test_parameters_are_what_the_model_has(shape: Shape, heads: int) -> None:
    for task in (Task(), Task((1, 2, 3, 4), symbols=16)):
        architecture = Architecture(heads, shape)
        model = build(task, architecture, 0)
        assert parameters(architecture, task) == sum(weight.numel() for weight in model.parameters())


def test_initial_weights_are_the_seeds_alone() -> None:
    torch.manual_seed(5)
    before = torch.get_rng_state()
    first = build(TASK, Architecture(2), 7).state_dict()
    assert torch.equal(torch.get_rng_state(), before)
    torch.rand(3)
    second, other = build(TASK, Architecture(2), 7).state_dict(), build(TASK, Architecture(2), 8).state_dict()
    assert all(torch.equal(weight, second[name]) for name, weight in first.items())
    name = "backbone.layers.0.self_attn.q_proj.weight"
    assert not torch.equal(first[name], other[name])
    assert first[name].std() == pytest.approx(0.02, rel=0.2)


def test_the_attention_is_that_of_the_eager_model_and_the_setting_stays() -> None:
    model = spread("qwen3")
    bench = Bench(model, "test", 4)
    pattern = model.patterns(bench.tokens)
    assert pattern.shape == (4, 5, 10, 10)
    assert torch.allclose(pattern.sum(-1), torch.ones(4, 5, 10), atol=1e-5)
    assert model.backbone.config._attn_implementation == "sdpa"
    by_distance = attention_by_distance(model, bench.tokens)
    expected = sum(float(pattern[b, 2, q, q - 3]) for b in range(4) for q in range(3, 10)) / 28
    assert by_distance[2, 3] == pytest.approx(expected, abs=1e-6)


def test_llama_takes_numbers_of_heads_that_do_not_divide_its_width() -> None:
    model = build(TASK, replace(Architecture(3), width=64), 0)
    assert model.layer.self_attn.o_proj.weight.shape == (64, 24)
