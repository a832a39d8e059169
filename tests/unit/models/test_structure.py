"""Classes without an adapter: found and right, or refused with one sentence; never wrong."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn

from headlens.errors import ModelError
from headlens.heads import Head
from headlens.models.families import family_of
from headlens.models.structure import Structural, by_structure
from headlens.run import Run, running
from tests.unit.models.opened import assert_same, differs, heads, hook_count, lens_on
from tests.unit.models.tiny import VOCAB, TinySpec, build, outputs

_IDS: dict[str, Any] = {"vocab_size": VOCAB, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
_DEEP: dict[str, Any] = {
    **_IDS,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "hidden_size": 32,
    "intermediate_size": 48,
    "max_position_embeddings": 64,
}
_GPT: dict[str, Any] = {**_IDS, "n_layer": 3, "n_head": 4, "n_embd": 32, "n_positions": 64}
_VISION = {**{k: v for k, v in _DEEP.items() if k not in _IDS}, "image_size": 12, "patch_size": 4}


def _spec(name: str, kind: Any = "causal", cls: str = "", **arguments: Any) -> TinySpec:
    return TinySpec(kind, f"{name}Config", (cls or f"{name}ForCausalLM",), arguments)


FOUND: dict[str, tuple[TinySpec, int, str]] = {
    # name: how to build it, KV heads, path of the output projection of layer 1
    "GPT-J": (_spec("GPTJ", **_GPT, rotary_dim=4), 4, "transformer.h.1.attn.out_proj"),
    "StableLM": (_spec("StableLm", **_DEEP, num_key_value_heads=2), 2, "model.layers.1.self_attn.o_proj"),
    "Cohere": (_spec("Cohere", **_DEEP, num_key_value_heads=2), 2, "model.layers.1.self_attn.o_proj"),
    "Starcoder2": (_spec("Starcoder2", **_DEEP, num_key_value_heads=1), 1, "model.layers.1.self_attn.o_proj"),
    "GPTBigCode": (_spec("GPTBigCode", **_GPT), 1, "transformer.h.1.attn.c_proj"),
    "MPT": (
        _spec("Mpt", **{**_IDS, "d_model": 32, "n_heads": 4, "n_layers": 3, "max_seq_len": 64}),
        4,
        "transformer.blocks.1.attn.out_proj",
    ),
    "MPNet": (_spec("MPNet", "encoder", "MPNetForMaskedLM", **_DEEP), 4, "mpnet.encoder.layer.1.attention.attn.o"),
    "DeBERTa": (
        _spec(
            *("DebertaV2", "encoder", "DebertaV2ForMaskedLM"),
            **{**_DEEP, "relative_attention": True, "pos_att_type": ["c2p", "p2c"], "max_relative_positions": 16},
        ),
        4,
        "deberta.encoder.layer.1.attention.output.dense",
    ),
    "RoFormer": (
        _spec("RoFormer", "encoder", "RoFormerForMaskedLM", **_DEEP),
        4,
        "roformer.encoder.layer.1.attention.output.dense",
    ),
    "SigLIP": (
        _spec("SiglipVision", "image", "SiglipVisionModel", **_VISION),
        4,
        "encoder.layers.1.self_attn.out_proj",
    ),
}
REFUSED: dict[str, tuple[TinySpec, str]] = {
    "Mamba": (_spec("Mamba", **{**_IDS, "hidden_size": 32, "num_hidden_layers": 3}), "has no attention heads"),
    "FNet": (_spec("FNet", "encoder", "FNetForMaskedLM", **_DEEP), "has no attention heads"),
    "Funnel": (
        _spec(
            *("Funnel", "encoder", "FunnelForMaskedLM"),
            **{**_IDS, "block_sizes": [1, 1, 1], "d_model": 32, "n_head": 4, "d_head": 8, "d_inner": 48},
        ),
        "not computed as pattern times values",
    ),
    "XLNet": (
        _spec(
            *("XLNet", "encoder", "XLNetLMHeadModel"),
            **{**_IDS, "n_layer": 3, "n_head": 4, "d_model": 32, "d_inner": 48},
        ),
        "not computed as pattern times values",
    ),
    "Nystromformer": (
        _spec("Nystromformer", "encoder", "NystromformerForMaskedLM", **_DEEP),
        "does not project the heads of .* one by one",
    ),
    "Nystromformer-landmarks": (
        _spec("Nystromformer", "encoder", "NystromformerForMaskedLM", **_DEEP, num_landmarks=4),
        "a trial pass failed with RuntimeError",
    ),
    "ConvBERT": (
        _spec("ConvBert", "encoder", "ConvBertForMaskedLM", **_DEEP),
        "no linear layer takes the heads of .* side by side",
    ),
    "Swin": (
        _spec(
            *("Swin", "image", "SwinModel"),
            **{"image_size": 32, "embed_dim": 16, "depths": [1, 1], "num_heads": [2, 4], "window_size": 4},
        ),
        "windows",
    ),
    "RecurrentGemma": (_spec("RecurrentGemma", **_DEEP), "1 of the 3 blocks in model.layers attend"),
    "ALBERT": (_spec("Albert", "encoder", "AlbertForMaskedLM", **_DEEP, embedding_size=16), "attends more than once"),
    "BART": (
        _spec(
            *("Bart", "seq2seq", "BartForConditionalGeneration"),
            **{**_IDS, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "d_model": 32},
            **{"decoder_attention_heads": 4, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32, "forced_eos_token_id": None},
        ),
        "more than one stack",
    ),
}


def _zeroed(plain: nn.Module, path: str, head: int) -> nn.Module:
    """A copy whose columns of one output projection are zero for one head."""
    model = copy.deepcopy(plain)
    module = model.get_submodule(path)
    weight: torch.Tensor = module.weight.data  # type: ignore[assignment, union-attr]
    rows = weight.T if isinstance(module, nn.Linear) else weight
    width = len(rows) // 4
    rows[head * width : (head + 1) * width] = 0.0
    return model


@pytest.mark.parametrize("name", list(FOUND))
def test_found_and_right(name: str) -> None:
    spec, kv_heads, path = FOUND[name]
    model, inputs = build(spec, spec.classes[0])
    # A lens freezes the weights, and torch's MultiheadAttention (SigLIP's pooling) takes another way with frozen ones.
    plain = copy.deepcopy(model).requires_grad_(False)
    lens = lens_on(model)
    assert isinstance(lens.adapter, Structural)
    assert any("no adapter" in note for note in lens.notes)
    (site,) = lens.topology.sites
    assert (site.name, len(site.layers)) == ("self", 3)
    assert [(s.heads, s.kv_heads, s.causal) for s in site.layers] == 3 * [
        ((0, 1, 2, 3), kv_heads, spec.kind == "causal")
    ]
    patterns: dict[int, torch.Tensor] = {}
    z: dict[int, torch.Tensor] = {}
    watching = Run(
        on_pattern=lambda _, layer, p: patterns.__setitem__(layer, p),
        on_z=lambda _, layer, value: z.__setitem__(layer, value.clone()),
    )
    with torch.no_grad():
        wanted = outputs(plain, inputs)  # type: ignore[arg-type]
        assert_same(outputs(model, inputs), wanted)
        for head in (0, 2, 3):
            with lens.off(heads(Head("self", 1, head))):
                found = outputs(model, inputs)
            assert_same(found, outputs(_zeroed(plain, path, head), inputs), atol=1e-5)  # type: ignore[arg-type]
            assert differs(found, wanted)
        with running(lens.owner, watching):
            assert_same(outputs(model, inputs), wanted)
    real = inputs.get("attention_mask", torch.ones(z[1].shape[:2])).bool()
    _check_patterns(lens.adapter, lens.sites[0].layers, patterns, z, real, model, inputs)


def _check_patterns(adapter: Any, places: Any, patterns: Any, z: Any, real: Any, model: Any, inputs: Any) -> None:
    """``pattern @ value = z``, with the value projection that the trial found (where it is one layer by itself)."""
    for pattern in patterns.values():
        rows = pattern.transpose(1, 2)[real]
        torch.testing.assert_close(rows.sum(-1), torch.ones(rows.shape[:2]), atol=1e-5, rtol=0)
    columns = adapter.qkv(places[1]).get("v")
    if columns is None:
        return
    seen: list[torch.Tensor] = []
    handle = columns.module.register_forward_hook(lambda module, args, output: seen.append(output))
    with torch.no_grad():
        outputs(model, inputs)
    handle.remove()
    value = seen[0][:, :, columns.index].transpose(1, 2)  # [rows, kv_heads, key, d_head]
    value = value.repeat_interleave(4 // places[1].kv_heads, dim=1)
    found = (patterns[1] @ value).transpose(1, 2)
    torch.testing.assert_close(found[real], z[1][real], atol=2e-5, rtol=1e-5)


@pytest.mark.parametrize("name", list(REFUSED))
def test_refused_in_one_sentence(name: str) -> None:
    spec, why = REFUSED[name]
    model, _ = build(spec, spec.classes[0])
    before = hook_count(model)
    with pytest.raises(ModelError, match=why) as error:
        by_structure(model)
    assert str(error.value).startswith(spec.classes[0])
    assert "\n" not in str(error.value)
    assert hook_count(model) == before


def test_convolutions_have_no_heads() -> None:
    from transformers import ResNetConfig, ResNetForImageClassification

    config = ResNetConfig(embedding_size=8, hidden_sizes=[8, 8, 8, 8], depths=[1, 1, 1, 1])
    with pytest.raises(ModelError, match="ResNetForImageClassification has no attention heads"):
        family_of(ResNetForImageClassification(config))


class _Scaled(nn.Module):
    """An output projection in disguise: what comes out is not the sum of what the heads write."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x * 1.5)


def test_projection_that_does_not_take_z_itself_is_refused() -> None:
    spec = FOUND["StableLM"][0]
    model, _ = build(spec, spec.classes[0])
    attention: Any = model.get_submodule("model.layers.1.self_attn")
    attention.o_proj = _Scaled(attention.o_proj)
    with pytest.raises(
        ModelError, match=r"no linear layer takes the heads of model\.layers\.1\.self_attn side by side"
    ):
        by_structure(model)


def test_two_projections_of_the_same_heads_are_refused() -> None:
    spec = FOUND["StableLM"][0]
    model, _ = build(spec, spec.classes[0])
    attention: Any = model.get_submodule("model.layers.0.self_attn")
    first, second = attention.o_proj, copy.deepcopy(attention.o_proj)

    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = first, second

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.first(x) + self.second(x)

    attention.o_proj = Both()
    with pytest.raises(ModelError, match="more than one linear layer"):
        by_structure(model)


def test_the_trial_leaves_nothing_behind() -> None:
    spec = FOUND["GPT-J"][0]
    model, inputs = build(spec, spec.classes[0])
    model.train()
    before = hook_count(model)
    by_structure(model)
    assert model.training
    assert hook_count(model) == before
    model.eval()
    with torch.no_grad():
        again = build(spec, spec.classes[0])[0]
        assert_same(outputs(model, inputs), outputs(again, inputs))
