"""The timed work is what a user would run: same outputs, right shapes, right cache."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from headlens.errors import HeadlensError
from headlens.heads import HeadSet
from headlens.lens import Lens
from headlens.pruning.cut import cut
from headlens.pruning.workloads import Shape, Workload, kv_bytes_per_token
from tests.unit.helpers import D_HEAD, HEADS, LAYERS, lens_for


def calls_of(model: Any, work: Workload, monkeypatch: pytest.MonkeyPatch) -> list[tuple[dict[str, Any], Any]]:
    """Inputs and outputs of every call of the model in one measurement."""
    seen: list[tuple[dict[str, Any], Any]] = []
    plain = type(model).forward

    def forward(self: Any, **inputs: Any) -> Any:
        output = plain(self, **inputs)
        seen.append((inputs, output))
        return output

    monkeypatch.setattr(type(model), "forward", forward)
    work.measure()
    monkeypatch.undo()
    return seen


@pytest.mark.parametrize(
    ("kind", "phases"),
    [
        ("gpt2", ("prefill", "decode")),
        ("llama", ("prefill", "decode")),
        ("t5", ("prefill", "decode")),
        ("bert-mlm", ("forward",)),
        ("bert-bare", ("forward",)),
        ("bert-class", ("forward",)),
    ],
)
def test_phases(kind: str, phases: tuple[str, ...]) -> None:
    lens, _ = lens_for(kind)
    work = Workload(lens, HeadSet(), Shape(3, 5, 2))
    assert work.phases == phases
    found = work.measure()
    assert tuple(found) == phases
    assert all(seconds > 0 for seconds in found.values())
    assert work.tokens(phases[0]) == 15
    if "decode" in phases:
        assert work.tokens("decode") == 3


def test_reading_and_writing(monkeypatch: pytest.MonkeyPatch) -> None:
    lens, plain = lens_for("gpt2")
    seen = calls_of(lens.model, Workload(lens, HeadSet(), Shape(2, 6, 3), seed=5), monkeypatch)
    assert [tuple(inputs["input_ids"].shape) for inputs, _ in seen] == [(2, 6), (2, 1), (2, 1), (2, 1)]
    assert seen[0][0]["logits_to_keep"] == 1
    whole = torch.cat([inputs["input_ids"] for inputs, _ in seen], 1)
    wanted = plain(input_ids=whole, use_cache=False).logits
    found = torch.cat([output.logits[:, -1:] for _, output in seen], 1)
    assert torch.allclose(found, wanted[:, 5:], atol=1e-9)


@pytest.mark.parametrize("kind", ["gpt2", "t5"])
def test_masked_heads_are_off_while_it_runs(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lens, _ = lens_for(kind)
    off = lens.topology.parse("L1" if kind == "gpt2" else "cross.L1,dec.L0H2")
    shape = Shape(2, 6, 2)
    seen = calls_of(lens.model, Workload(lens, off, shape, seed=5), monkeypatch)
    clear = calls_of(lens.model, Workload(lens, HeadSet(), shape, seed=5), monkeypatch)
    if kind == "t5":
        ids = torch.cat([inputs["decoder_input_ids"] for inputs, _ in seen], 1)
        inputs = {"input_ids": seen[0][0]["input_ids"], "decoder_input_ids": ids}
    else:
        inputs = {"input_ids": torch.cat([inputs["input_ids"] for inputs, _ in seen], 1)}
    with lens.off(off), torch.no_grad():
        wanted = lens.model(**inputs, use_cache=False).logits
    for step, (_, output) in enumerate(reversed(seen)):
        assert torch.allclose(output.logits[:, -1], wanted[:, -1 - step], atol=1e-9)
    assert not torch.allclose(seen[-1][1].logits, clear[-1][1].logits)
    assert torch.equal(seen[0][0]["input_ids"], clear[0][0]["input_ids"])


def test_bytes_of_the_cache() -> None:
    for kind, heads in (("gpt2", HEADS), ("llama", 2)):
        lens, _ = lens_for(kind)
        assert kv_bytes_per_token(lens, prompt=4) == 2 * LAYERS * heads * D_HEAD * 8
    # One token of the source in the cross-attention's cache, and one that is written in the decoder's: a cut of either
    # is seen, and one of the encoder, which keeps nothing, is none.
    lens, _ = lens_for("t5")
    whole, head = 2 * 2 * LAYERS * HEADS * D_HEAD * 8, 2 * D_HEAD * 8
    assert kv_bytes_per_token(lens, prompt=4) == whole
    for label, saved in (("enc.L0H0", 0), ("dec.L0H0", head), ("cross.L0H0", head)):
        smaller = Lens(cut(lens, lens.topology.parse(label)).loaded)
        assert kv_bytes_per_token(smaller, prompt=4) == whole - saved
    lens, _ = lens_for("gpt2", dtype=torch.float32)
    assert kv_bytes_per_token(lens, prompt=4) == 2 * LAYERS * HEADS * D_HEAD * 4
    lens, _ = lens_for("bert-mlm")
    assert kv_bytes_per_token(lens, prompt=4) is None


def test_short_work_is_repeated() -> None:
    lens, _ = lens_for("bert-bare")
    work = Workload(lens, HeadSet(), Shape(1, 4))
    work.warm_up()
    assert 1 < work.inner <= 20


def test_pictures() -> None:
    from transformers import ViTConfig, ViTForImageClassification

    from tests.unit.helpers import open_lens

    config = ViTConfig(hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8, image_size=16,
                       patch_size=8)  # fmt: skip
    lens = open_lens(ViTForImageClassification(config), "image-classification")
    work = Workload(lens, lens.topology.parse("L0H1"), Shape(3, 64, 2))
    assert (work.phases, work.tokens("forward")) == (("forward",), 3)
    assert work.measure()["forward"] > 0
    assert tuple(work.inputs["pixel_values"].shape) == (3, 3, 16, 16)


def test_prompts_that_are_too_long() -> None:
    lens, _ = lens_for("gpt2")
    with pytest.raises(HeadlensError, match="takes 32 tokens and 33 were asked for"):
        Workload(lens, HeadSet(), Shape(1, 30, 3))
    encoder, _ = lens_for("bert-bare")
    Workload(encoder, HeadSet(), Shape(1, 30, 3))
