"""Attention patterns of every family against a copy that runs the family's eager attention."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from headlens.patterns import KernelSpy, sdpa_pattern
from headlens.run import Edit, Run, running
from tests.unit.models.opened import Opened, assert_same, opened
from tests.unit.models.tiny import TINY

NAMES = tuple(TINY)
LAYERS_OF_SITES = {
    "self": "attentions",
    "enc": "encoder_attentions",
    "dec": "decoder_attentions",
    "cross": "cross_attentions",
}
Captured = dict[tuple[str, int], Tensor]


def capture(case: Opened, **more: Any) -> tuple[Captured, dict[str, Tensor]]:
    """Patterns of all layers, and the outputs of the same pass."""
    found: Captured = {}
    run = Run(on_pattern=lambda site, layer, pattern: found.__setitem__((site, layer), pattern), **more)
    with running(case.lens.owner, run):
        output = case.out()
    return found, output


def eager_attentions(case: Opened) -> dict[str, tuple[Tensor, ...]]:
    """By site: what transformers itself gives for ``output_attentions`` when it computes the weights."""
    model = type(case.plain)._from_config(copy.deepcopy(case.plain.config), attn_implementation="eager").eval()
    model.load_state_dict(case.plain.state_dict())
    with torch.no_grad():
        output = model(**case.inputs, output_attentions=True, return_dict=True)
    if case.name == "clip":
        return {"text": output.text_model_output.attentions, "vision": output.vision_model_output.attentions}
    return {site.name: output[LAYERS_OF_SITES[site.name]] for site in case.lens.sites}


def query_mask(case: Opened, site: str, queries: int) -> Tensor:
    """Rows that are not padding, ``[rows, query]``."""
    mask = case.inputs.get("decoder_attention_mask" if site in ("dec", "cross") else "attention_mask")
    if mask is None or site == "vision" or (TINY[case.name].kind == "sound" and site == "enc"):
        return torch.ones(len(next(iter(case.inputs.values()))), queries, dtype=torch.bool)
    return mask.bool()


# Falcon's eager attention adds ALiBi twice (its logits differ from its own sdpa by 0.35), so it is no reference there.
@pytest.mark.parametrize("name", [name for name in NAMES if name != "falcon-alibi"])
def test_patterns_are_those_of_the_eager_model(name: str) -> None:
    case = opened(name)
    found, output = capture(case)
    assert_same(output, case.reference())  # asking changes no bit
    wanted = eager_attentions(case)
    assert set(found) == {(site.name, i) for site in case.lens.sites for i in range(len(site.layers))}
    for (site, layer), pattern in found.items():
        assert pattern.dtype == torch.float32
        real = query_mask(case, site, pattern.shape[2])
        assert pattern.shape == wanted[site][layer].shape
        per_query, eager = (p.transpose(1, 2)[real] for p in (pattern, wanted[site][layer]))  # [queries, heads, key]
        torch.testing.assert_close(per_query, eager, atol=1e-5, rtol=0, msg=f"{name} {site} {layer}")
        torch.testing.assert_close(per_query.sum(-1), torch.ones(per_query.shape[:2]), atol=1e-5, rtol=0)
        if case.lens.topology.site(site).layers[layer].causal:
            assert bool((pattern.transpose(1, 2)[real].transpose(1, 2).sum() > 0).all())
            future = torch.ones(pattern.shape[2:], dtype=torch.bool).triu(1)
            assert float(pattern.masked_select(future & real[:, None, :, None]).abs().max()) == 0.0
        elif site != "cross":
            assert float(pattern.triu(1).max()) > 1e-3


@pytest.mark.parametrize("name", NAMES)
def test_causal_without_a_mask(name: str) -> None:
    """Unpadded input comes with no mask at all: the kernel makes the causal one itself."""
    case = opened(name, padded=False)
    found, output = capture(case)
    assert_same(output, case.reference())
    for (site, layer), pattern in found.items():
        torch.testing.assert_close(pattern.sum(-1), torch.ones(pattern.shape[:3]), atol=1e-5, rtol=0)
        causal = case.lens.topology.site(site).layers[layer].causal
        assert (float(pattern.triu(1).abs().max()) == 0.0) == causal or site == "cross"


def _inputs_of(module: nn.Module, case: Opened) -> list[Tensor]:
    """What a module gets in each of its calls of one pass."""
    seen: list[Tensor] = []
    handle = module.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    case.out()
    handle.remove()
    return seen


@pytest.mark.parametrize("name", NAMES)
def test_pattern_times_value_weight_is_z(name: str) -> None:
    """``z = pattern @ (x W_V + b_V)`` head by head: pattern, W_V, b_V and the KV group of each head belong together."""
    case = opened(name)
    z: Captured = {}
    found, _ = capture(case, on_z=lambda site, layer, value: z.__setitem__((site, layer), value.clone()))
    for site in case.lens.sites:
        shapes = case.lens.topology.site(site.name).layers
        for layer, place in enumerate(site.layers):
            columns = case.lens.adapter.qkv(place)["v"]
            seen = _inputs_of(columns.module, case)
            # A shared module is called once for each layer that it serves; its calls come in layer order.
            served = [i for i, other in enumerate(site.layers) if other.attention is place.attention]
            x = seen[served.index(layer)]
            x = x[:, 0] if x.dim() == 4 else x  # MLA's latent is kept as one head
            weight, bias = case.lens.adapter.value_weight(place), case.lens.adapter.value_bias(place)
            assert weight is not None
            assert weight.shape == (place.kv_heads, x.shape[-1], place.d_head)
            value = torch.einsum("bki,gid->bgkd", x, weight)
            if bias is not None:
                value = value + bias[None, :, None]
            group = list(shapes[layer].kv_of)
            wanted = (found[site.name, layer] @ value[:, group]).transpose(1, 2)
            real = query_mask(case, site.name, wanted.shape[1])
            torch.testing.assert_close(z[site.name, layer][real], wanted[real], atol=2e-5, rtol=1e-5)


# Olmo-2 normalises queries and keys over all heads at once, so its heads cannot be changed one by one before that.
SEPARATE = tuple(name for name in NAMES if name not in ("olmo2", "clip"))


@pytest.mark.parametrize("name", SEPARATE)
def test_query_and_key_columns_belong_to_their_heads(name: str) -> None:
    """No query = no key = no content in the scores, for the heads of one group and for no other head."""
    case = opened(name)
    site = case.lens.sites[-1]
    layer = len(site.layers) - 1
    place = site.layers[layer]
    group = place.kv_heads - 1
    shape = case.lens.topology.site(site.name).layers[layer]
    members = list(shape.members(group))
    others = [head for head in range(4) if head not in members]
    before = capture(case)[0][site.name, layer]
    columns = case.lens.adapter.qkv(place)
    blind = {}
    for part, rows in (("q", members), ("k", [group])):
        module = columns[part].module
        with _zeroed(module, columns[part].index[rows].flatten()):
            blind[part] = capture(case)[0][site.name, layer]
        if not name.startswith("albert"):  # shared weights: the layers below changed as well
            torch.testing.assert_close(blind[part][:, others], before[:, others], atol=1e-5, rtol=0)
        assert float((blind[part][:, members] - before[:, members]).abs().max()) > 1e-3
    if not name.startswith(("deepseek", "albert")):  # MLA's keys have a rotary part that is not in these columns
        torch.testing.assert_close(blind["q"][:, members], blind["k"][:, members], atol=1e-5, rtol=0)


class _zeroed:  # noqa: N801 - reads as a verb
    """Output columns of a projection set to zero for a while."""

    def __init__(self, module: Any, index: Tensor) -> None:
        self.module, self.index = module, index

    def __enter__(self) -> None:
        self.kept = copy.deepcopy(dict(self.module.named_parameters()))
        with torch.no_grad():
            rows = self.module.weight if isinstance(self.module, torch.nn.Linear) else self.module.weight.T
            rows[self.index] = 0.0
            if self.module.bias is not None:
                self.module.bias[self.index] = 0.0

    def __exit__(self, *_: object) -> None:
        with torch.no_grad():
            for key, value in self.kept.items():
                self.module.get_parameter(key).copy_(value)


@pytest.mark.parametrize("name", ["gpt2", "albert", "t5", "bloom"])
def test_only_the_layers_that_are_asked_for(name: str) -> None:
    case = opened(name)
    key = (case.lens.sites[-1].name, 1)
    everything, _ = capture(case)
    found, _ = capture(case, pattern_of=frozenset({key}))
    assert set(found) == {key}
    assert torch.equal(found[key], everything[key])


@pytest.mark.parametrize("name", ["gpt2", "gemma2", "albert", "bart"])
def test_pattern_of_a_switched_model(name: str) -> None:
    """Switching a head off changes the patterns above its layer and none at or below it."""
    case = opened(name)
    site = case.lens.sites[0].name
    before, _ = capture(case)
    off = torch.tensor([[False, True, True, False]])
    found, _ = capture(case, edits={(site, 1): Edit(off=off)})
    for (where, layer), pattern in found.items():
        if where == site:
            assert torch.equal(pattern, before[where, layer]) == (layer <= 1)


@pytest.mark.parametrize("name", ["llama", "gpt2", "t5", "gemma2", "bloom"])
def test_one_query_with_a_cache(name: str) -> None:
    """While generating, the pattern has one query and as many keys as there are tokens so far."""
    case = opened(name, padded=False)
    shapes: list[tuple[int, ...]] = []
    site = "dec" if "decoder_input_ids" in case.inputs else "self"
    run = Run(on_pattern=lambda _, layer, p: shapes.append(tuple(p.shape)), pattern_of=frozenset({(site, 1)}))
    with running(case.lens.owner, run), torch.no_grad():
        case.model.generate(  # type: ignore[operator]
            input_ids=case.inputs["input_ids"], max_new_tokens=3, min_new_tokens=3, do_sample=False, use_cache=True
        )
    start = 1 if site == "dec" else case.inputs["input_ids"].shape[1]
    assert shapes == [(2, 4, start, start), (2, 4, 1, start + 1), (2, 4, 1, start + 2)]


@pytest.mark.parametrize("kv_heads", [4, 2, 1])
@pytest.mark.parametrize("mask", ["none", "causal", "bool", "float"])
def test_pattern_of_the_kernel(kv_heads: int, mask: str) -> None:
    """The weights, applied to the values, give what the kernel gives; a blind query gets zeros from both."""
    generator = torch.Generator().manual_seed(1)
    query = torch.randn(2, 4, 5, 8, generator=generator)
    key, value = torch.randn(2, 2, kv_heads, 6, 8, generator=generator)
    options: dict[str, Any] = {"scale": 0.7, "enable_gqa": kv_heads < 4, "is_causal": mask == "causal"}
    if mask == "bool":
        visible = torch.rand(2, 1, 5, 6, generator=generator) > 0.4
        visible[0, 0, 2] = False
        options["attn_mask"] = visible
    elif mask == "float":
        options["attn_mask"] = torch.randn(2, 4, 5, 6, generator=generator)
    with KernelSpy() as spy:
        wanted = torch.nn.functional.scaled_dot_product_attention(query, key, value, **options)
    (pattern,) = spy.patterns
    assert torch.equal(pattern, sdpa_pattern(query, key, value, **options))
    found = pattern @ value.repeat_interleave(4 // kv_heads, dim=1)
    torch.testing.assert_close(found, wanted, atol=1e-5, rtol=0)
