"""What the adapters say about each family: sites, head counts, KV groups, weights; and what they refuse."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import (
    AlbertConfig,
    AlbertModel,
    BertConfig,
    BertLMHeadModel,
    BloomConfig,
    BloomForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
)

from headlens.errors import ModelError
from headlens.models.families import FAMILIES, family_of
from headlens.models.families.base import output_weight
from headlens.models.structure import Structural
from tests.unit.models.opened import lens_on, opened, projections
from tests.unit.models.tiny import CASES, TINY, tiny

NAMES = tuple(TINY)
WIDTHS = {
    "llama-mqa": 6,
    "qwen3": 12,
    "gemma": 12,
    "gemma2": 12,
    "gemma3_text": 12,
    "deepseek_v2": 7,
    "deepseek_v3": 7,
    "t5": 6,
    "mt5": 6,
    "umt5": 6,
}
"""Width of z where it is not hidden size / heads = 8."""
KV_HEADS = {
    "llama": 2,
    "llama-mqa": 1,
    "mistral": 2,
    "mixtral": 2,
    "qwen2": 2,
    "qwen3": 2,
    "gemma": 1,
    "gemma2": 2,
    "gemma3_text": 2,
    "olmo2": 2,
    "granite": 2,
    "smollm3": 2,
    "phi": 2,
    "phi3": 2,
    "falcon": 1,
    "falcon-gqa": 2,
}
DEPTHS = {"gpt_neo": 4, "albert": 4, "albert-groups": 6}


@pytest.mark.parametrize("name", NAMES)
def test_shapes(name: str) -> None:
    case = opened(name)
    kind = TINY[name].kind
    names = {"seq2seq": ("enc", "dec", "cross"), "sound": ("enc", "dec", "cross"), "towers": ("text", "vision")}
    sites = case.lens.topology.sites
    assert tuple(site.name for site in sites) == names.get(kind, ("self",))
    for site in sites:
        assert len(site.layers) == DEPTHS.get(name, 3)
        for shape in site.layers:
            kv = KV_HEADS.get(name, 4)
            assert shape.heads == (0, 1, 2, 3)
            assert shape.kv_heads == kv
            assert shape.kv_of == tuple(head // (4 // kv) for head in range(4))
            assert shape.d_head == WIDTHS.get(name, 8)
            is_causal = kind == "causal" or site.name in ("dec", "text") or name == "clip_text_model"
            assert shape.causal == is_causal


@pytest.mark.parametrize(("name", "cls"), CASES)
def test_output_projections_are_the_ones_named_by_hand(name: str, cls: str) -> None:
    if name.startswith("albert"):
        return  # see test_albert_layers_are_calls
    lens = opened(name, cls).lens
    for site in lens.sites:
        assert [place.out_proj for place in site.layers] == projections(name, lens.model, site.name)


@pytest.mark.parametrize("name", NAMES)
def test_sum_of_heads_is_the_projection(name: str) -> None:
    """``sum_h z_h W_O[h] + b`` is what the projection gives."""
    model, _ = tiny(name)
    for site in family_of(model).sites(model):
        place = site.layers[1]
        z = torch.randn(5, place.heads, place.d_head, generator=torch.Generator().manual_seed(0))
        found = torch.einsum("qhd,hdm->qm", z, output_weight(place))
        bias = getattr(place.out_proj, "bias", None)
        found = found if bias is None else found + bias
        torch.testing.assert_close(found, place.out_proj(z.flatten(1)), atol=1e-5, rtol=1e-5)


def test_albert_layers_are_calls() -> None:
    """Two groups of two inner layers, three group calls: group 0 twice, group 1 once, each with both inner layers."""
    model, _ = tiny("albert-groups")
    (site,) = family_of(model).sites(model)
    groups = model.get_submodule("albert.encoder.albert_layer_groups")
    inner = [[layer.attention.dense for layer in group.albert_layers] for group in groups]  # type: ignore[union-attr]
    assert [place.out_proj for place in site.layers] == [*inner[0], *inner[0], *inner[1]]
    called: list[torch.nn.Module] = []
    for module in {id(p.out_proj): p.out_proj for p in site.layers}.values():
        module.register_forward_pre_hook(lambda module, args: called.append(module))
    model(input_ids=torch.tensor([[5, 6, 7]]))
    assert called == [place.out_proj for place in site.layers]


@pytest.mark.parametrize(
    ("name", "cls"),
    [("t5", "T5EncoderModel"), ("bart", "BartForCausalLM"), ("clip_text_model", "CLIPTextModelWithProjection")],
)
def test_one_stack_alone_is_the_site_self(name: str, cls: str) -> None:
    (site,) = opened(name, cls).lens.topology.sites
    assert site.name == "self"
    assert site.layers[0].causal == (cls != "T5EncoderModel")


@pytest.mark.parametrize("name", ["deepseek_v2", "deepseek_v3"])
def test_latent_attention_has_no_kv_heads_to_group_by(name: str) -> None:
    lens = opened(name).lens
    assert any("no KV head" in note for note in lens.notes)
    assert len(lens.topology.parse("L1G2")) == 1


def test_a_kv_group_is_its_query_heads() -> None:
    topology = opened("llama").lens.topology
    assert topology.parse("L1G1") == topology.parse("L1H2,L1H3")


def test_every_adapter_is_covered_here() -> None:
    covered = {getattr(tiny(name)[0].config, "model_type", "") for name in NAMES}
    assert covered == {model_type for family in FAMILIES for model_type in family.model_types}
    assert all(family.name for family in FAMILIES)


def test_no_model_type_has_two_adapters() -> None:
    types = [model_type for family in FAMILIES for model_type in family.model_types]
    assert len(types) == len(set(types))


_IDS: dict[str, Any] = {"vocab_size": 30, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}


def test_cross_attention_that_is_not_known_is_refused() -> None:
    gpt2 = GPT2LMHeadModel(GPT2Config(n_layer=2, n_head=2, n_embd=8, add_cross_attention=True, **_IDS))
    sizes: dict[str, Any] = {"num_hidden_layers": 2, "num_attention_heads": 2, "hidden_size": 8, "intermediate_size": 8}
    bert = BertLMHeadModel(BertConfig(**sizes, is_decoder=True, add_cross_attention=True, **_IDS))
    for model in (gpt2, bert):
        with pytest.raises(ModelError, match="cross-attention"):
            family_of(model).sites(model)


def test_bloom_that_skips_its_projection_is_refused() -> None:
    sizes: dict[str, Any] = {"n_layer": 2, "n_head": 2, "hidden_size": 8, "pretraining_tp": 2, "slow_but_exact": True}
    model = BloomForCausalLM(BloomConfig(**sizes, **_IDS))
    with pytest.raises(ModelError, match="slow_but_exact"):
        lens_on(model)


def test_moved_modules_are_named() -> None:
    sizes: dict[str, Any] = {"num_hidden_layers": 2, "num_attention_heads": 2, "hidden_size": 8, "intermediate_size": 8}
    model = LlamaForCausalLM(LlamaConfig(**sizes, **_IDS))
    attention: Any = model.model.layers[1].self_attn
    attention.output = attention.o_proj
    del attention.o_proj
    with pytest.raises(ModelError, match=r"has no 'self_attn\.o_proj'"):
        lens_on(model)
    del model.model.layers
    with pytest.raises(ModelError, match="LlamaForCausalLM has no layers"):
        lens_on(model)


def test_family_of_knows_what_has_an_adapter() -> None:
    sizes: dict[str, Any] = {"num_hidden_layers": 2, "num_attention_heads": 2, "hidden_size": 8, "intermediate_size": 8}
    model = AlbertModel(AlbertConfig(**sizes, embedding_size=4, **_IDS))
    assert not isinstance(family_of(model), Structural)
    assert family_of(model).name == "ALBERT"
