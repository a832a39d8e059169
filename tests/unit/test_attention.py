"""Patterns against eager attention, token ids, and prompts that cannot be used."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest
import torch

from headlens.attention import patterns, prompt_inputs
from headlens.errors import DataError
from headlens.heads import LayerShape, SiteShape, Topology
from headlens.lens import Lens
from tests.unit.helpers import LAYERS, SITES, lens_for


class Words:
    """A tokenizer for texts like ``"3 4 5"``, with an end token."""

    all_special_ids = (2,)

    def __call__(self, text: str | None = None, *, text_target: str | None = None) -> dict[str, list[int]]:
        words = (text if text_target is None else text_target or "").split()  # type: ignore[union-attr]
        ids = [int(word) for word in words if word.isdigit()]
        return {"input_ids": [*ids, 2] if ids else []}


def opened(kind: str) -> tuple[Lens, Any]:
    lens, plain = lens_for(kind)
    lens.tokenizer = cast(Any, Words())
    plain.set_attn_implementation("eager")
    return lens, plain


@pytest.mark.parametrize("kind", ["gpt2", "llama", "bert-bare"])
def test_one_site(kind: str) -> None:
    lens, plain = opened(kind)
    inputs = prompt_inputs(lens, "3 4 5 6")
    found = patterns(lens, inputs)
    with torch.no_grad():
        expected = plain(inputs["input_ids"], output_attentions=True).attentions
    assert list(found.pattern) == ["self"]
    assert found.pattern["self"].dtype == np.float32
    assert found.pattern["self"].shape == (LAYERS, 4, 5, 5)
    np.testing.assert_allclose(found.pattern["self"], torch.stack(expected)[:, 0], atol=2e-6)
    np.testing.assert_allclose(found.pattern["self"].sum(-1), 1, atol=1e-5)
    assert found.query_ids["self"] == found.key_ids["self"] == [3, 4, 5, 6, 2]
    assert found.pattern_layers["self"] == (0, 1, 2)


def test_three_sites() -> None:
    lens, plain = opened("t5")
    inputs = prompt_inputs(lens, "3 4 5 6", "7 8")
    assert inputs["decoder_input_ids"].tolist() == [[0, 7, 8]]
    found = patterns(lens, inputs)
    with torch.no_grad():
        output = plain(**inputs, output_attentions=True, use_cache=False)
    expected = {"enc": output.encoder_attentions, "dec": output.decoder_attentions, "cross": output.cross_attentions}
    shapes = {"enc": (5, 5), "dec": (3, 3), "cross": (3, 5)}
    assert tuple(found.pattern) == SITES["t5"]
    for site, pattern in found.pattern.items():
        assert pattern.shape == (LAYERS, 4, *shapes[site])
        np.testing.assert_allclose(pattern, torch.stack(expected[site])[:, 0], atol=2e-6)
    assert found.query_ids == {"enc": [3, 4, 5, 6, 2], "dec": [0, 7, 8], "cross": [0, 7, 8]}
    assert found.key_ids == {"enc": [3, 4, 5, 6, 2], "dec": [0, 7, 8], "cross": [3, 4, 5, 6, 2]}


def test_some_layers() -> None:
    lens, _ = opened("t5")
    inputs = prompt_inputs(lens, "3 4", "7")
    every = patterns(lens, inputs)
    found = patterns(lens, inputs, layers={"cross": (2, 0)})
    assert list(found.pattern) == ["cross"]
    assert found.pattern_layers["cross"] == (0, 2)
    np.testing.assert_array_equal(found.pattern["cross"], every.pattern["cross"][[0, 2]])


def test_ragged_heads_are_nan_where_gone() -> None:
    lens, _ = opened("gpt2")
    plain = patterns(lens, prompt_inputs(lens, "3 4")).pattern["self"]
    kv_of = tuple(range(6))
    full = LayerShape((0, 2, 3, 5), 6, kv_of, 4, 4, True)
    lens.topology = Topology((SiteShape("self", (full, LayerShape((), 6, kv_of, 4, 0, True), full)),))
    found = patterns(lens, prompt_inputs(lens, "3 4")).pattern["self"]
    assert found.shape == (3, 6, 3, 3)
    np.testing.assert_array_equal(found[[0, 2]][:, [0, 2, 3, 5]], plain[[0, 2]])
    assert np.isnan(found[1]).all()
    assert np.isnan(found[0, [1, 4]]).all()


def test_a_switch_changes_later_layers_only() -> None:
    lens, _ = opened("gpt2")
    inputs = prompt_inputs(lens, "3 4 5")
    before = patterns(lens, inputs).pattern["self"]
    after = patterns(lens, inputs, off=lens.topology.parse("L1H0-H3")).pattern["self"]
    np.testing.assert_array_equal(before[:2], after[:2])
    assert np.abs(before[2] - after[2]).max() > 1e-4


@pytest.mark.parametrize(
    ("kind", "prompt", "target", "said"),
    [
        ("gpt2", "", None, "empty"),
        ("gpt2", " \n", None, "empty"),
        ("gpt2", "nothing", None, "no tokens"),
        ("gpt2", "3 " * 40, None, "41 tokens; at most 32"),
        ("gpt2", "3 99", None, "99, outside"),
        ("t5", "3", None, "target"),
        ("t5", "3", " ", "target"),
        ("t5", "3", "nothing", "target has no tokens"),
        ("t5", "3", "4 " * 3000, "target has 3001 tokens"),
    ],
)
def test_prompts_that_cannot_be_used(kind: str, prompt: str, target: str | None, said: str) -> None:
    lens, _ = opened(kind)
    with pytest.raises(DataError, match=said) as caught:
        prompt_inputs(lens, prompt, target)
    assert "\n" not in str(caught.value)


def test_models_without_a_tokenizer_take_no_prompt() -> None:
    lens, _ = lens_for("gpt2")
    with pytest.raises(DataError, match="no text prompt"):
        prompt_inputs(lens, "3 4")
