"""Claims on speed, roles, cross-attention and skills, run from end to end on models made for them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from headlens.claims.context import Context
from headlens.claims.skills import HiddenSkill
from headlens.claims.special import CrossMostSensitive, RolesGoLast
from headlens.claims.speed import SmallerAndFaster
from headlens.data.encode import Encoded, EncodedData
from headlens.lens import Lens
from headlens.pruning import benchmark, workloads
from tests.unit.helpers import PROJECTIONS, build, open_lens, pack, random_data, sentence
from tests.unit.roles.planted_heads import OUTPUT, SIZE, TOKEN, planted


@pytest.mark.parametrize(("falls", "verdict"), [(True, "holds"), (False, "fails")])
def test_smaller_and_faster(monkeypatch: pytest.MonkeyPatch, falls: bool, verdict: str) -> None:
    """A machine on which every head costs a second, and one that is slower with sizes it is not made for."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(n_layer=1, n_head=8, n_embd=64, n_positions=64, vocab_size=24, bos_token_id=0, eos_token_id=0)
    variants, clock = benchmark.variants, [0.0]
    monkeypatch.setattr(workloads.time, "perf_counter", lambda: clock[0])

    def spend(module: Any, *_: object) -> None:
        heads = module.weight.shape[0] // 8
        clock[0] += heads if falls else 24 - 2 * heads

    def clocked(*args: Any) -> list[benchmark.Variant]:
        found = variants(*args)
        for model in {id(one.lens): one.lens.model for one in found}.values():
            core: Any = model
            core.transformer.h[0].attn.c_proj.register_forward_hook(spend)
        return found

    monkeypatch.setattr(benchmark, "variants", clocked)
    data = random_data("gpt2", 20, seed=1)
    found = SmallerAndFaster().check(Context(open_lens(GPT2LMHeadModel(config), "causal-lm"), data, data))
    assert found.verdict == verdict
    assert found.value == pytest.approx(-0.5 if falls else 1)  # 4 seconds of 8, or 16


def texts(seed: int, *, twice: bool) -> EncodedData:
    """Twelve different words, then the same again or twelve others."""
    rng, found = torch.Generator().manual_seed(seed), []
    for _ in range(16):
        words = (torch.randperm(SIZE - 2, generator=rng) + 2).tolist()
        found.append(sentence(words[:12] * 2 if twice else words[:24]))
    return pack(found)


class Nothing(nn.Module):
    """In place of an MLP whose weights are zero anyway: it takes no time."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.zeros_like(x)


def planted_with(strengths: dict[tuple[int, int], float]) -> Lens:
    """The planted model whose named heads say so much of what they read, straight into the output."""
    lens = planted.__wrapped__()
    core: Any = lens.model
    for block in core.transformer.h:
        block.mlp = Nothing()
    core.transformer.h[1].attn.c_attn.weight.data[:, :SIZE] = 0  # L1H0 would have the role of one that looks at itself
    for (layer, head), strength in strengths.items():
        block = core.transformer.h[layer].attn
        rows, values = (slice(start + head * SIZE, start + (head + 1) * SIZE) for start in (0, 2 * 4 * SIZE))
        block.c_attn.weight.data[TOKEN, values] = torch.eye(SIZE).double() / 10
        block.c_proj.weight.data[rows, OUTPUT] = strength * torch.eye(SIZE).double()
    return lens


def test_roles_go_last() -> None:
    """L0H0 (previous token) and L1H1 (induction) carry repeated texts, or say nothing while the others do."""
    others = [(0, 1), (0, 2), (0, 3), (1, 0), (1, 2), (1, 3)]
    data = texts(1, twice=True)
    needed = planted_with(dict.fromkeys(others, 0.0))
    found = RolesGoLast().check(Context(needed, data, data))
    assert (found.verdict, found.value) == ("holds", 1.0), found.sentence
    idle = planted_with(dict.fromkeys(others, 0.5) | {(1, 1): 0.0})
    core: Any = idle.model
    first, second = (block.attn for block in core.transformer.h)
    first.c_proj.weight.data[:SIZE] = 0
    for start in (0, 4 * SIZE):  # an induction head would be one no more, so both look at the token before
        looks = first.c_attn.weight.data[:, start : start + SIZE]
        second.c_attn.weight.data[:, start + SIZE : start + 2 * SIZE] = looks
    found = RolesGoLast().check(Context(idle, data, data))
    assert (found.verdict, found.value) == ("fails", 0.0), found.sentence


@pytest.mark.parametrize(("alive", "verdict"), [(("cross",), "holds"), (("enc", "dec"), "fails")])
def test_cross_most_sensitive(alive: tuple[str, ...], verdict: str) -> None:
    """Only these sites say anything; the targets are what the model itself says, so all that it says is needed."""
    model: Any = build("t5")
    for site in ("enc", "dec", "cross"):
        for layer in range(3):
            weight = model.get_submodule(PROJECTIONS["t5", site].format(layer)).weight
            weight.data *= 6.0 if site in alive else 0.0
    data = random_data("t5", 60, seed=3)
    said = own_words(model, data)
    found = CrossMostSensitive().check(Context(open_lens(model, "seq2seq"), said, said))
    assert found.verdict == verdict, found.sentence


def own_words(model: Any, data: EncodedData) -> EncodedData:
    """The same inputs with the likeliest target at every place."""
    said = []
    for one in data.examples:
        inputs = {name: value[None] for name, value in one.inputs.items()}
        with torch.no_grad():
            said.append(Encoded(one.inputs, model(**inputs, use_cache=False).logits[0].argmax(-1)))
    return pack(said)


@pytest.mark.parametrize(("twice", "verdict"), [(False, "holds"), (True, "fails")])
def test_hidden_skill(twice: bool, verdict: str) -> None:
    """Nobody misses the copying heads on texts without repetition; on texts that repeat, the loss shows it."""
    data = texts(1, twice=twice)
    found = HiddenSkill().check(Context(planted_with({}), data, texts(2, twice=twice)))
    assert found.verdict == verdict, found.sentence
