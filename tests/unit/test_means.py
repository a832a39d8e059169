"""Heads that write their mean while a prompt is read or continued, against hooks on the plain model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from headlens.attention import prompt_inputs
from headlens.data.select import live_set
from headlens.generation import continuations
from headlens.lens import Lens, open_model
from headlens.live import LiveEvaluator
from headlens.next_tokens import next_tokens
from tests.small_models import save_gpt2

PROMPT = "The cat sat on the"
SLICE = slice(16, 24)  # head 2 of width 8
OFF = "L1H2"


@pytest.fixture(scope="module")
def lens(tmp_path_factory: pytest.TempPathFactory) -> Lens:
    folder: Path = tmp_path_factory.mktemp("means") / "gpt2"
    return open_model(str(save_gpt2(folder)))


@pytest.fixture(scope="module")
def mean(lens: Lens) -> torch.Tensor:
    """Mean ``z`` of L1H2 over all tokens of the live set, one example at a time."""
    seen: list[torch.Tensor] = []
    model: Any = lens.model
    hook = model.transformer.h[1].attn.c_proj.register_forward_pre_hook(
        lambda _, args: seen.append(args[0][0, :, SLICE])
    )
    with torch.inference_mode():
        for example in live_set(lens).examples:
            model(input_ids=example.inputs["input_ids"][None])
    hook.remove()
    return torch.cat(seen).double().mean(0).float()


@contextmanager
def written(lens: Lens, value: torch.Tensor) -> Iterator[None]:
    """The plain model with L1H2 writing ``value``."""

    def replace(_: Any, args: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        z = args[0].clone()
        z[..., SLICE] = value
        return (z, *args[1:])

    model: Any = lens.model
    hook = model.transformer.h[1].attn.c_proj.register_forward_pre_hook(replace)
    try:
        yield
    finally:
        hook.remove()


def test_next_tokens_with_a_head_at_its_mean(lens: Lens, mean: torch.Tensor) -> None:
    means = LiveEvaluator(lens, live_set(lens)).means()
    assert torch.allclose(means["self", 1][2], mean, atol=1e-6)
    inputs = prompt_inputs(lens, PROMPT)
    found = next_tokens(lens, inputs, lens.topology.parse(OFF), k=5, means=means)
    zero = next_tokens(lens, inputs, lens.topology.parse(OFF), k=5)
    with torch.inference_mode(), written(lens, mean):
        expected = lens.model(**inputs).logits[0, -1].softmax(-1)
    for choice in found.choices:
        assert choice.after == pytest.approx(float(expected[choice.id]), rel=1e-4)
    assert found.drift != pytest.approx(zero.drift, rel=1e-2)


def test_the_text_goes_on_with_a_head_at_its_mean(lens: Lens, mean: torch.Tensor) -> None:
    means = LiveEvaluator(lens, live_set(lens)).means()
    found = continuations(lens, PROMPT, lens.topology.parse(OFF), max_new_tokens=8, means=means)
    ids = prompt_inputs(lens, PROMPT)["input_ids"]
    start = ids.shape[1]
    with torch.inference_mode(), written(lens, mean):
        for _ in found.after.ids:
            ids = torch.cat([ids, lens.model(input_ids=ids).logits[:, -1:].argmax(-1)], dim=1)
    assert found.after.ids == ids[0, start:].tolist()
