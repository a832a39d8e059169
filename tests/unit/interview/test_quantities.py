"""Numbers about heads: against generated caches, counted weights and published figures."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from headlens.interview.amounts import Live, NotHereError, number
from headlens.interview.quantities import QUANTITIES, live, live_or_reference
from headlens.interview.shape import GPT2_SMALL, Shape, published, shape_of
from tests.unit.helpers import open_lens
from tests.unit.models.tiny import tiny

LLAMA_8B = published(
    "Llama-3.1 8B", layers=32, heads=32, kv_heads=8, d_head=128, d_model=4096, parameters=8_030_261_248, bias=False
)
LLAMA_70B = published(
    "Llama-3.1 70B", layers=80, heads=64, kv_heads=8, d_head=128, d_model=8192, parameters=70_553_706_496, bias=False
)
BERT_BASE = published(
    "BERT base", layers=12, heads=12, kv_heads=12, d_head=64, d_model=768, parameters=109_482_240, bias=False
)
CAUSAL = ("gpt2", "gpt_neox", "opt", "bloom", "llama", "llama-mqa", "qwen3", "gemma", "phi", "phi3")


def shape(name: str, task: str = "causal-lm") -> tuple[Shape, Any]:
    model, _ = tiny(name)
    return shape_of(open_lens(model, task)), model


@pytest.mark.parametrize("name", CAUSAL)
def test_the_cache_is_as_large_as_the_one_that_generating_fills(name: str) -> None:
    found, model = shape(name)
    with torch.no_grad():
        cache = model(torch.tensor([[5]]), use_cache=True).past_key_values
    kept = sum(layer.keys.numel() + layer.values.numel() for layer in cache.layers)
    assert live("kv-bytes-per-token", found).value == 2 * kept
    assert live("kv-bytes-per-token", found, {"bytes": 4}).value == 4 * kept
    assert live("kv-mib-for-context", found, {"tokens": 100, "batch": 3}).value == pytest.approx(600 * kept / 2**20)


def test_published_figures_come_out() -> None:
    assert live("kv-bytes-per-token", LLAMA_8B).text == "131,072 bytes (128 KiB)"
    assert live("kv-bytes-if-every-head", LLAMA_8B).value == 512 * 1024
    assert live("kv-bytes-per-token", LLAMA_70B).value == 320 * 1024
    assert live("head-parameters", LLAMA_70B).value == pytest.approx(2.10e6, rel=0.01)
    assert live("group-parameters", LLAMA_70B).value == pytest.approx(18.9e6, rel=0.005)
    assert live("head-parameters", BERT_BASE).value == 196_608
    assert live("attention-share", BERT_BASE).value == pytest.approx(25.9, abs=0.05)
    assert live("attention-share", BERT_BASE, {"part": 0.5}).value == pytest.approx(12.9, abs=0.05)
    assert live("attention-share", GPT2_SMALL).value == pytest.approx(22.8, abs=0.05)
    assert live("queries-per-kv", LLAMA_8B).value == 4


def test_the_shape_that_stands_in_is_that_of_the_real_class() -> None:
    from transformers import GPT2Config, GPT2LMHeadModel

    with torch.device("meta"):
        model = GPT2LMHeadModel(GPT2Config())
    assert sum(parameter.numel() for parameter in model.parameters()) == GPT2_SMALL.parameters
    attention = sum(p.numel() for name, p in model.named_parameters() if ".attn." in name)
    assert sum(layer.all for layer in GPT2_SMALL.layers) == attention


@pytest.mark.parametrize("name", ["gpt2", "llama", "llama-mqa", "phi3", "opt", "bert"])
def test_parameters_of_a_head_are_those_that_its_output_depends_on(name: str) -> None:
    task = "masked-lm" if name == "bert" else "causal-lm"
    lens = open_lens(tiny(name, dtype=torch.float64)[0], task)
    place, first = lens.sites[0].layers[0], shape_of(lens).layers[0]
    z: list[torch.Tensor] = []
    handle = place.out_proj.register_forward_pre_hook(lambda _, args: z.append(args[0]))
    lens.model.requires_grad_(True)(torch.arange(4, 12)[None])
    handle.remove()
    z[0][..., : place.d_head].pow(2).sum().backward()
    grads = [p.grad for p in place.attention.parameters() if p.grad is not None]
    largest = max(float(grad.abs().max()) for grad in grads)
    touched = sum(int((grad.abs() > 1e-9 * largest).sum()) for grad in grads)
    # A key's bias shifts all logits of a row alike, so that nothing depends on it, except with rotary positions.
    bias = {"gpt2": place.d_head, "bert": place.d_head, "opt": place.d_head}.get(name, 0)
    assert touched == first.q + first.kv - bias
    weights = place.out_proj.weight
    assert first.o == weights.numel() // place.heads  # type: ignore[union-attr, operator]


@pytest.mark.parametrize("name", ["gpt2", "llama", "opt", "t5", "deepseek_v3"])
def test_parameters_of_a_head_are_those_that_a_cut_takes_away(name: str) -> None:
    from headlens.pruning.cut import cut

    task = "seq2seq" if name == "t5" else "causal-lm"
    lens = open_lens(tiny(name)[0], task)
    made = cut(lens, lens.topology.parse("dec.L0H1" if name == "t5" else "L0H1"))
    gone = live("head-parameters", shape_of(lens))
    assert made.parameters_before - made.parameters_after == gone.value, gone.sum


@pytest.mark.parametrize(("name", "part"), [("gpt2", ".attn."), ("llama", ".self_attn."), ("bert", ".attention.")])
def test_attentions_share_is_counted_by_name_too(name: str, part: str) -> None:
    found, model = shape(name, "masked-lm" if name == "bert" else "causal-lm")
    named = sum(p.numel() for key, p in model.named_parameters() if part in key and "LayerNorm" not in key)
    total = sum(p.numel() for p in model.parameters())
    assert live("attention-share", found).value == pytest.approx(100 * named / total)


def test_shared_weights_count_once() -> None:
    model, _ = tiny("albert")
    found = shape_of(open_lens(model, "masked-lm"))
    assert found.layers[0].all > 0
    assert sum(layer.all for layer in found.layers[1:]) == 0
    assert live("attention-share", found).value < 100


def test_a_latent_cache_does_not_depend_on_heads() -> None:
    found, _ = shape("deepseek_v3")
    assert found.latent
    assert "3 layers that cache, one latent of 14 numbers a layer for all heads" in found.facts()["cache"]
    assert "from a latent of 10" in found.facts()["head"]
    assert live("kv-bytes-per-token", found).value == 2 * 3 * (10 + 4)
    assert live("kv-saved-by-query-head", found).value == 0
    for name in ("kv-bytes-if-every-head", "kv-saved-by-groups", "queries-per-kv", "group-parameters"):
        with pytest.raises(NotHereError):
            live(name, found)
        assert live_or_reference(name, found).shape is GPT2_SMALL


def test_an_encoder_keeps_no_cache_and_gpt2_stands_in() -> None:
    found = shape_of(open_lens(tiny("bert")[0], "masked-lm"))
    with pytest.raises(NotHereError, match="generates nothing"):
        live("kv-bytes-per-token", found)
    assert live_or_reference("kv-bytes-per-token", found).shape is GPT2_SMALL
    assert live_or_reference("head-parameters", found).shape is found
    assert live_or_reference("head-parameters", None).shape is GPT2_SMALL


def test_only_the_decoder_of_a_seq2seq_model_caches_what_it_writes() -> None:
    found = shape_of(open_lens(tiny("t5")[0], "seq2seq"))
    assert len(found.caching) == 3
    assert len(found.layers) == 9
    assert live("kv-bytes-per-token", found).value == 2 * 2 * 3 * 4 * 6
    assert live("leave-one-out-passes", found).value == 37


@pytest.mark.parametrize(("name", "off"), [("gpt2", "L0,L1H0"), ("llama", "L0,L1G0"), ("llama", "L1H0-H1,L2H3")])
def test_models_with_heads_cut_out(name: str, off: str) -> None:
    from headlens.lens import Lens
    from headlens.pruning.cut import cut

    lens = open_lens(tiny(name)[0], "causal-lm")
    smaller = Lens(cut(lens, lens.topology.parse(off)).loaded)
    found = shape_of(smaller)
    with torch.no_grad():
        cache = smaller.model(torch.tensor([[5]]), use_cache=True).past_key_values
    kept = sum(layer.keys.numel() + layer.values.numel() for layer in cache.layers)
    assert live("kv-bytes-per-token", found).value == 2 * kept
    assert found.heads == 12 - len(lens.topology.parse(off))
    assert live("attention-share", found).value < live("attention-share", shape_of(lens)).value
    for name in QUANTITIES:
        assert live_or_reference(name, found).value >= 0


def test_what_a_question_says_of_the_model_is_enough_to_answer_it() -> None:
    alone, shared = GPT2_SMALL.facts(), LLAMA_70B.facts()
    assert alone["cache"] == "12 layers that cache, 12 key/value heads of width 64 in each"
    assert shared["cache"] == "80 layers that cache, 8 key/value heads of width 128 in each"
    assert shared["head"] == "64 query and 8 key/value heads of width 128"
    assert shared["attention"] == "5120 query and 640 key/value heads of width 128 in 80 layers"
    assert sum(layer.all for layer in LLAMA_70B.layers) == 2 * (5120 + 640) * 128 * 8192
    lens = open_lens(tiny("llama")[0], "causal-lm")
    from headlens.lens import Lens
    from headlens.pruning.cut import cut

    uneven = shape_of(Lens(cut(lens, lens.topology.parse("L0,L1G0")).loaded))
    assert uneven.facts()["cache"] == "2 layers that cache, 3 key/value heads of width 8 in all"


def test_what_one_head_saves_depends_on_sharing() -> None:
    alone, _ = shape("gpt2")
    shared, _ = shape("llama")
    assert live("kv-saved-by-query-head", alone).value == 2 * 2 * 8
    assert live("kv-saved-by-query-head", shared).value == 0
    assert live("kv-saved-by-groups", shared).value == 3 * 2 * 8 * 2
    assert live("kv-saved-by-groups", shared, {"groups": 9}).value == live("kv-bytes-per-token", shared).value
    assert live("kv-bytes-if-every-head", shared).value == 2 * live("kv-bytes-per-token", shared).value


def test_counts() -> None:
    assert live("pairs", GPT2_SMALL).value == 144 * 143 / 2
    assert live("leave-one-out-passes", GPT2_SMALL).value == 145
    assert live("pattern-entries", GPT2_SMALL, {"tokens": 10}).value == 14_400
    assert live("rank-bound", GPT2_SMALL).value == 64
    assert live("write-share", GPT2_SMALL).value == pytest.approx(100 / 12)
    assert live("weight-megabytes", GPT2_SMALL).value == pytest.approx(248.88, abs=0.01)
    assert live("tokens-like-weights", GPT2_SMALL).value == round(124_439_808 * 2 / 36_864)


@pytest.mark.parametrize("name", sorted(QUANTITIES))
def test_the_sum_that_is_shown_ends_in_the_value(name: str) -> None:
    for found in (live(name, GPT2_SMALL), live(name, LLAMA_8B)):
        digits = number(found.value).replace(",", "")
        assert digits[:3] in found.sum.replace(",", ""), found.sum
        assert found.text


def test_numbers_are_written_as_people_do() -> None:
    assert Live(1536.0, "bytes", "", GPT2_SMALL).text == "1,536 bytes (1.5 KiB)"
    assert Live(12.3456, "%", "", GPT2_SMALL).text == "12.35 %"
    assert Live(7, "pairs", "", GPT2_SMALL).text == "7 pairs"
