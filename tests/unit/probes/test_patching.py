"""Head patching against hooks of one's own on the plain model."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch

from headlens.errors import Cancelled, HeadlensError
from headlens.probes import Pair, TextSkill
from headlens.probes.patching import patch_heads
from tests.unit.helpers import D_HEAD, HEADS, LAYERS, TASKS, Oracle, build, open_lens, pack, places
from tests.unit.probes.test_probe import by_hand
from tests.unit.tiny_tokenizer import tiny_tokenizer

CLEAN = (
    Pair("w3 w4 w5 w6", " w7", " w8", " w9"),
    Pair("w9 w10 w3", " w11", " w12", " w13"),
    Pair("w4 w5", " w6", " w3"),
)
CORRUPTED = (
    Pair("w3 w4 w12 w6", " w7", " w8", " w9"),
    Pair("w15 w10 w3", " w11", " w12", " w13"),
    Pair("w4 w8", " w6", " w3"),
)


def skill(pairs: tuple[Pair, ...], kind: str) -> TextSkill:
    if kind == "t5":
        pairs = tuple(Pair("w3", p.right, p.foil, source=p.context) for p in pairs)
    return TextSkill("made-up", "Made up", "do as in the test", "made up", pairs)


@pytest.mark.parametrize("kind", ["gpt2", "llama", "bert-mlm", "t5"])
def test_recovered_shares(kind: str) -> None:
    model = build(kind)
    oracle = Oracle(kind, copy.deepcopy(model))
    lens = open_lens(model, TASKS[kind], tokenizer=tiny_tokenizer())
    clean, corrupted = (skill(pairs, kind).data(lens) for pairs in (CLEAN, CORRUPTED))
    found = patch_heads(lens, clean, corrupted)
    before, after = (by_hand(clean, oracle.outputs(each.data)) for each in (clean, corrupted))
    assert (found.clean, found.corrupted) == pytest.approx((before.mean(), after.mean()), abs=1e-5)
    patched: list[Any] = []
    wanted, site, layer, head = float("nan"), "", -1, -1
    for site, layer, head in places(kind)[::3]:
        z = oracle.z(clean.data, site, layer)
        patched = []
        for i, example in enumerate(corrupted.data.examples):

            def put(module: Any, args: Any, own: torch.Tensor = z[i], head: int = head) -> Any:
                mine = args[0].unflatten(-1, (HEADS, D_HEAD)).clone()
                mine[0, :, head] = own[:, head]
                return (mine.flatten(-2),)

            handle = oracle.projection(site, layer).register_forward_pre_hook(put)
            patched += oracle.outputs(pack([example]))
            handle.remove()
        wanted = (by_hand(clean, patched).mean() - after.mean()) / (before.mean() - after.mean())
        assert found.recovered[site][layer, head] == pytest.approx(wanted, abs=1e-4)
    assert all(array.shape == (LAYERS, HEADS) for array in found.recovered.values())
    back, whole = by_hand(clean, patched) - after, before - after
    rest = back - wanted * whole
    error = np.sqrt(3 / 2 * (rest**2).sum()) / abs(whole.sum())
    assert found.sem[site][layer, head] == pytest.approx(error, rel=1e-3)


def test_the_clean_text_brings_everything_back() -> None:
    """One layer and a linear output: the shares of all heads add up to the whole."""
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    config = GPT2Config(n_layer=1, n_head=4, n_embd=16, n_positions=8, vocab_size=24, bos_token_id=0, eos_token_id=0)
    model: Any = GPT2LMHeadModel(config).double().eval()
    for parameter in model.parameters():
        parameter.data = torch.randn_like(parameter) * 0.4
    block = model.transformer.h[0]
    block.mlp.c_proj.weight.data.zero_()
    model.transformer.ln_f = torch.nn.Identity()
    lens = open_lens(model, "causal-lm", tokenizer=tiny_tokenizer())
    # The last token is the same, so all that differs comes through the heads.
    clean, corrupted = (skill((Pair(text, " w7", " w8"),), "gpt2").data(lens) for text in ("w3 w4 w5", "w9 w4 w5"))
    found = patch_heads(lens, clean, corrupted)
    assert float(found.recovered["self"].sum()) == pytest.approx(1.0, abs=1e-4)


def test_progress_cancelling_and_mistakes() -> None:
    lens = open_lens(build("gpt2"), "causal-lm", tokenizer=tiny_tokenizer())
    clean, corrupted = (skill(pairs, "gpt2").data(lens) for pairs in (CLEAN, CORRUPTED))
    seen: list[tuple[int, int]] = []
    patch_heads(lens, clean, corrupted, on_progress=lambda *at: seen.append(at))
    assert seen == [(i, 12) for i in range(1, 13)]

    def stop(done: int, total: int) -> None:
        raise Cancelled

    with pytest.raises(Cancelled):
        patch_heads(lens, clean, corrupted, on_progress=stop)
    for other in (skill(CLEAN[:2], "gpt2").data(lens), skill(CLEAN[::-1], "gpt2").data(lens)):
        with pytest.raises(HeadlensError, match="same number of tokens"):
            patch_heads(lens, clean, other)
    assert np.isfinite(patch_heads(lens, clean, corrupted).recovered["self"]).all()
