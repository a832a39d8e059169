"""The cut against the other way to remove a head: its columns of W_O set to zero in an untouched copy."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from headlens.attention import patterns
from headlens.errors import HeadError, HeadlensError, ModelError
from headlens.evaluate import evaluate
from headlens.heads import Head, HeadSet
from headlens.importance import Request, method_for
from headlens.importance.score import score
from headlens.lens import Lens
from headlens.metrics import METRICS
from headlens.models.families.base import Family
from headlens.pruning.cut import cut, mask
from tests.unit.helpers import lens_for, random_data
from tests.unit.models.opened import assert_same, differs, lens_on, opened
from tests.unit.models.test_structure import FOUND
from tests.unit.models.tiny import CASES, TINY, build, outputs, tiny
from tests.unit.pruning.cuts import KINDS, NAMES, choose, prompt, same_state, state, write

GENERATING = tuple(name for name in NAMES if TINY[name].kind in ("causal", "seq2seq", "sound"))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", NAMES)
def test_cut_is_masked(name: str, kind: str) -> None:
    """Outputs, labels and head counts; nothing of the source changes and nothing is shared with it."""
    case = opened(name)
    off = choose(case.lens, KINDS[kind])
    before = state(case.model)
    result = cut(case.lens, off)
    with torch.no_grad():
        found = outputs(result.model, case.inputs)
    reference = case.reference(off)
    assert differs(reference, case.reference())
    assert_same(found, reference, atol=1e-4)
    assert result.proof.difference <= 1e-4
    assert result.proof.exact is not None
    assert result.proof.exact <= 1e-13
    assert same_state(case.model, before)
    memory = {tensor.data_ptr() for tensor in case.model.state_dict().values()}
    assert memory.isdisjoint(tensor.data_ptr() for tensor in result.model.state_dict().values() if tensor.numel())
    smaller = Lens(result.loaded)
    assert smaller.topology.heads() == case.lens.topology.heads() - off
    for old, new in zip(case.lens.topology.sites, smaller.topology.sites, strict=True):
        for shape, left in zip(old.layers, new.layers, strict=True):
            assert (left.original, left.kv_of) == (shape.original, shape.kv_of)
            assert left.kv_heads == len({shape.kv_of[head] for head in left.heads})


@pytest.mark.parametrize(("name", "cls"), [case for case in CASES if not case[0].startswith("albert")])
def test_every_class(name: str, cls: str) -> None:
    case = opened(name, cls)
    result = cut(case.lens, choose(case.lens, lambda layer, head, site: (layer + head + site) % 3 == 1))
    assert type(result.model) is type(case.plain)
    with torch.no_grad():
        found = outputs(result.model, case.inputs)
    assert_same(found, case.reference(result.off), atol=1e-4)


# How many numbers each head owns, by hand: d_model is 32, heads are 8 wide unless said; biases where there are any.
ATTENTION = 4 * 32 * 8
COUNTS: dict[str, tuple[str, int]] = {
    "gpt2": ("L0H1,L1", 5 * (ATTENTION + 3 * 8)),
    "gpt_neo": ("L0H1,L1", 5 * ATTENTION),
    "gpt_neox": ("L0H1,L1", 5 * (ATTENTION + 3 * 8)),
    "opt": ("L0H1,L1", 5 * (ATTENTION + 3 * 8)),
    "bloom": ("L0H1,L1", 5 * (ATTENTION + 3 * 8)),
    "bert": ("L0H1,L1", 5 * (ATTENTION + 3 * 8)),
    "modernbert": ("L0H1,L1", 5 * (ATTENTION + 3 * 8)),
    "vit": ("L0H1,L1", 5 * (ATTENTION + 3 * 8)),
    "whisper": ("enc.L0H1,cross.L1", 5 * (ATTENTION + 2 * 8)),  # its keys have no bias
    # Grouped: a query head has q and o, a KV head k and v. 3 query heads of two groups: one KV head goes with its last.
    "llama": ("L0H1,L1H2-H3", 3 * (2 * 32 * 8 + 8) + 2 * (32 * 8 + 8)),
    "qwen3": ("L0H1,L1H2-H3", 3 * 2 * 32 * 12 + 2 * 32 * 12),
    "llama-mqa": ("L0H0-H2", 3 * 2 * 32 * 6),
    "falcon-gqa": ("L0H1,L1H2-H3", 3 * (2 * 32 * 8 + 8) + 2 * (32 * 8 + 8)),
    "phi3": ("L0H1,L1H2-H3", 3 * 2 * 32 * 8 + 2 * 32 * 8),
    # Multi-head latent attention: each head's share of q (10 wide, from 12), of k and v (6 and 7, from 10), of o.
    "deepseek_v2": ("L0H1,L1H2-H3", 3 * (12 * 10 + 10 * (6 + 7) + 7 * 32)),
    # Norms over all heads: queries and keys stay.
    "olmo2": ("L0H1,L1H2-H3", 3 * 32 * 8 + 32 * 8),
    # Position biases of a head go when no layer of the stack has it any more: 32 buckets, here head 1 of the encoder.
    "t5": ("enc.L0H1,enc.L1H1,enc.L2H1,dec.L0H0", 4 * 4 * 32 * 6 + 32),
    "umt5": ("enc.L0H1,dec.L0H0,cross.L0H0", 3 * 4 * 32 * 6 + 2 * 32),  # a table in each layer, none in cross-attention
}


@pytest.mark.parametrize("name", COUNTS)
def test_parameters_are_what_arithmetic_says(name: str) -> None:
    case = opened(name)
    heads, gone = COUNTS[name]
    result = cut(case.lens, case.lens.topology.parse(heads))
    total = sum(parameter.numel() for parameter in case.plain.parameters())
    assert result.parameters_before == total
    assert result.parameters_after == total - gone
    assert sum(parameter.numel() for parameter in result.model.parameters()) == total - gone


def test_a_layer_without_heads_is_its_output_bias() -> None:
    case = opened("gpt2")
    model: Any = cut(case.lens, case.lens.topology.parse("L1")).model
    attention = model.transformer.h[1].attn
    output, _ = attention(torch.randn(2, 3, 32))
    plain: Any = case.plain
    assert torch.equal(output, plain.transformer.h[1].attn.c_proj.bias.expand(2, 3, 32))
    assert {name for name, _ in attention.named_parameters()} == {"c_proj.bias"}


@pytest.mark.parametrize("name", NAMES)
def test_a_second_cut(name: str) -> None:
    """Heads keep their labels, and those that are gone are said to be gone."""
    case = opened(name)
    first = choose(case.lens, KINDS["ragged"])
    once = Lens(cut(case.lens, first).loaded)
    second = choose(once, lambda layer, head, site: (layer, head) in ((0, 3), (2, 0), (2, 1)))
    twice = cut(once, second)
    with torch.no_grad():
        found = outputs(twice.model, case.inputs)
    assert_same(found, case.reference(first | second), atol=1e-4)
    lens = Lens(twice.loaded)
    assert lens.topology.heads() == case.lens.topology.heads() - first - second
    with pytest.raises(HeadError, match="is gone"):
        lens.topology.parse(lens.topology.label(lens.topology.sites[0].name, 0, 1))
    with pytest.raises(HeadError, match="no head"):
        cut(lens, first)


@pytest.mark.parametrize("kind", ["ragged", "whole layers"])
@pytest.mark.parametrize("name", GENERATING)
def test_generation_agrees_with_and_without_the_cache(name: str, kind: str) -> None:
    case = opened(name)
    off = choose(case.lens, KINDS[kind])
    model = cut(case.lens, off).model
    inputs = prompt(name, case.plain)
    with case.without(off) as plain:
        wanted = write(plain, inputs, use_cache=False)
    for use_cache in (True, False):
        found = write(model, inputs, use_cache=use_cache)
        assert torch.equal(found.sequences, wanted.sequences)
        for step, logits in zip(found.logits, wanted.logits, strict=True):
            torch.testing.assert_close(step, logits, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", ["llama", "t5", "bart", "mistral"])
@pytest.mark.parametrize("more", [{"num_beams": 2}, {"cache_implementation": "static"}])
def test_generation_with_beams_and_static_caches(name: str, more: dict[str, Any]) -> None:
    case = opened(name)
    off = choose(case.lens, KINDS["whole layers"])
    inputs = prompt(name, case.plain)
    with case.without(off) as plain:
        wanted = write(plain, inputs, **more)
    assert torch.equal(write(cut(case.lens, off).model, inputs, **more).sequences, wanted.sequences)


@pytest.mark.parametrize("name", ["gpt2", "llama", "t5", "bloom", "falcon-gqa", "olmo2", "bert", "vit"])
def test_it_trains(name: str) -> None:
    """Gradients are those of the masked model's weights; a step changes the cut model and not its source."""
    case = opened(name)
    off = choose(case.lens, KINDS["ragged"])
    model = cut(case.lens, off).model
    before = state(case.model)
    with case.without(off) as plain:
        gradients = []
        for one in (plain, model):
            one.requires_grad_(True).zero_grad()
            found = outputs(one, case.inputs)
            found["logits"].square().mean().backward()
            gradients.append({path: p.grad for path, p in one.named_parameters()})
        plain.zero_grad()
    wanted, mine = gradients
    for path, gradient in mine.items():
        if gradient is None or wanted[path] is None:
            assert gradient is None
            assert wanted[path] is None or not wanted[path].any()
        elif gradient.shape == wanted[path].shape:
            torch.testing.assert_close(gradient, wanted[path], atol=1e-5, rtol=1e-3)
        else:
            assert gradient.abs().sum() > 0
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter -= 0.1 * parameter.grad
        assert differs(outputs(model, case.inputs), case.reference(off))
    assert same_state(case.model, before)


@pytest.mark.parametrize("name", ["llama", "t5", "bloom", "falcon-gqa", "phi3", "olmo2"])
def test_copies_and_pickles_of_it_are_it(name: str) -> None:
    case = opened(name)
    model = cut(case.lens, choose(case.lens, KINDS["whole layers"])).model
    with torch.no_grad():
        wanted = outputs(model, case.inputs)
        assert_same(outputs(copy.deepcopy(model), case.inputs), wanted)
        assert_same(outputs(pickle.loads(pickle.dumps(model)), case.inputs), wanted)


def test_another_attention_implementation_still_pairs_rightly() -> None:
    """The module's class is asked at each call which attention to use, also where heads read unevenly."""
    case = opened("llama")
    off = case.lens.topology.parse("L0H1,L1")
    model = cut(case.lens, off).model
    model.set_attn_implementation("eager")
    with torch.no_grad():
        assert_same(outputs(model, case.inputs), case.reference(off), atol=1e-4)


@pytest.mark.parametrize("name", ["llama", "falcon-gqa", "phi3", "olmo2", "deepseek_v2", "gpt2", "t5"])
def test_weights_of_the_heads_that_are_left_are_theirs(name: str) -> None:
    """What depends on a head's own matrices alone is the same before and after, under the same label."""
    case = opened(name)
    smaller = Lens(cut(case.lens, choose(case.lens, KINDS["ragged"])).loaded)
    for method in ("magnitude", "magnitude-ov"):
        for unit in ("head", "kv"):
            request = Request(metric=METRICS["loss"], unit=unit)
            old, new = (score(lens, method_for(method), request) for lens in (case.lens, smaller))
            for site, layer, column in new.columns():
                if unit == "kv" and f"{site}.{layer}.{column}" not in _whole_groups(case.lens, smaller):
                    continue
                assert new.values[site][layer, column] == pytest.approx(old.values[site][layer, column], rel=1e-5)


def _whole_groups(before: Lens, after: Lens) -> set[str]:
    """Groups that lost no head."""
    return {
        f"{site.name}.{layer}.{group}"
        for site in after.topology.sites
        for layer, shape in enumerate(site.layers)
        for group in shape.groups
        if shape.members(group) == before.topology.site(site.name).layers[layer].members(group)
    }


@pytest.mark.parametrize("kind", ["gpt2", "llama", "t5", "bert-class"])
def test_an_exact_sweep_of_it_is_that_of_the_masked_model(kind: str) -> None:
    """Prefix reuse, gates and patterns work on a cut model: the first layer is gone, others are uneven."""
    lens, _ = lens_for(kind)
    off = choose(lens, KINDS["whole layers"])
    smaller = Lens(cut(lens, off).loaded)
    data, metric = random_data(kind), METRICS["loss"]
    base = evaluate(lens, data, off, metric=metric).main.value
    scores = score(smaller, method_for("ablation"), Request(metric=metric, data=data))
    for site, layer, head in scores.columns():
        more = off | HeadSet.of([Head(site, layer, head)])
        wanted = evaluate(lens, data, more, metric=metric).main.value - base
        assert scores.values[site][layer, head] == pytest.approx(wanted, abs=1e-6)  # Llama's norms are float32 inside
    slopes = score(smaller, method_for("gradient"), Request(metric=metric, data=data, signed=True))
    assert slopes.columns() == scores.columns()
    inputs = {name: value[None] for name, value in data.examples[0].inputs.items()}
    mine, masked = patterns(smaller, inputs), patterns(lens, inputs, off=off)
    for site, found in mine.pattern.items():
        left = ~np.isnan(found)
        assert left.any()
        np.testing.assert_allclose(found[left], masked.pattern[site][left], atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_other_precisions(dtype: torch.dtype) -> None:
    case = opened("llama", dtype=dtype)
    result = cut(case.lens, choose(case.lens, KINDS["ragged"]))
    assert {parameter.dtype for parameter in result.model.parameters()} == {dtype}
    assert result.proof.difference < {torch.float64: 1e-9}.get(dtype, 0.1)
    assert result.proof.exact is not None
    assert result.proof.exact <= 1e-13


@pytest.mark.parametrize("name", ["llama", "t5", "gpt2", "deepseek_v2"])
def test_the_cache_holds_what_is_said(name: str) -> None:
    """Numbers a token in the cache of keys and values, counted in the cache itself."""
    case = opened(name)
    lens = Lens(cut(case.lens, choose(case.lens, KINDS["whole layers"])).loaded)
    with torch.no_grad():
        model: Any = lens.model
        caches = model(
            **prompt(name, model), **({"decoder_input_ids": TOKENS} if name == "t5" else {"use_cache": True})
        )
    cache: Any = caches.past_key_values if "past_key_values" in caches else caches.cache
    layers = getattr(cache, "self_attention_cache", cache).layers
    site = next(site for site in lens.sites if site.name in ("self", "dec"))
    for place, layer in zip(site.layers, layers, strict=True):
        numbers = layer.keys.numel() + layer.values.numel()
        rows, tokens = layer.keys.shape[0], layer.keys.shape[-2]
        assert numbers == rows * tokens * lens.adapter.cached_values(place)


TOKENS = torch.tensor([[0, 5, 6], [0, 7, 8]])


def test_groups_that_lose_a_part_are_named() -> None:
    case = opened("llama")
    result = cut(case.lens, case.lens.topology.parse("L0H1,L1H2-H3,L2H0,L2H2"))
    assert result.part_groups == ("L0G0", "L2G0", "L2G1")
    assert cut(case.lens, case.lens.topology.parse("L0G1")).part_groups == ()


@pytest.mark.parametrize("name", ["albert", "albert-groups"])
def test_albert_loses_a_head_in_all_layers_or_not_at_all(name: str) -> None:
    case = opened(name)
    everywhere = choose(case.lens, lambda layer, head, site: head == 2)
    result = cut(case.lens, everywhere)
    with torch.no_grad():
        assert_same(outputs(result.model, case.inputs), case.reference(everywhere), atol=1e-4)
    assert Lens(result.loaded).topology.heads() == case.lens.topology.heads() - everywhere
    for make in (cut, mask):
        with pytest.raises(ModelError, match="shares its weights"):
            make(case.lens, case.lens.topology.parse("L0H2"))


def test_all_heads_and_foreign_heads_are_refused() -> None:
    lens = opened("gpt2").lens
    with pytest.raises(HeadlensError, match="every head"):
        cut(lens, lens.topology.heads())
    with pytest.raises(HeadError, match="no head"):
        cut(lens, opened("gpt_neo").lens.topology.parse("L3H0"))


def test_nothing_cut_is_a_copy() -> None:
    case = opened("llama")
    result = cut(case.lens, HeadSet())
    assert same_state(result.model, case.plain.state_dict())
    assert result.proof.difference == 0.0


@pytest.mark.parametrize("name", list(FOUND)[:2])
def test_without_an_adapter_heads_are_masked_but_not_cut(name: str) -> None:
    spec = FOUND[name][0]
    model, inputs = build(spec, spec.classes[0])
    lens = lens_on(model)
    off = lens.topology.parse("L1H2")
    with pytest.raises(ModelError, match="--masked"):
        cut(lens, off)
    with torch.no_grad(), lens.off(off):
        wanted = outputs(lens.model, inputs)
    with torch.no_grad():
        assert_same(outputs(mask(lens, off).model, inputs), wanted, atol=1e-5)


@pytest.mark.parametrize("name", ["gpt2", "llama", "t5", "deepseek_v2", "clip"])
def test_masked_is_the_old_shape_with_zeros(name: str) -> None:
    case = opened(name)
    off = choose(case.lens, KINDS["ragged"])
    result = mask(case.lens, off)
    with torch.no_grad(), case.without(off) as plain:
        assert same_state(result.model, plain.state_dict())
        assert_same(outputs(result.model, case.inputs), outputs(plain, case.inputs))
    assert result.parameters_after == result.parameters_before


def test_a_cut_that_is_wrong_is_not_handed_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """If a family had its heads elsewhere, the check on every cut would say so."""
    lens = opened("gpt2").lens
    right = Family.slices

    def wrong(self: Family, place: Any, kept: Any) -> Any:
        *cuts, out = right(self, place, kept)
        return [*cuts, type(out)(out.module, out.name, out.dim, out.index[::-1])]

    monkeypatch.setattr(Family, "slices", wrong)
    with pytest.raises(ModelError, match="differs from the masked one"):
        cut(lens, lens.topology.parse("L0H1"))


def test_a_model_that_gives_no_numbers_is_not_handed_out() -> None:
    model, _ = tiny("gpt2")
    broken: Any = model
    nn.init.constant_(broken.transformer.ln_f.weight, float("nan"))
    lens = lens_on(model)
    with pytest.raises(ModelError, match="differs"):
        cut(lens, lens.topology.parse("L0H1"))
