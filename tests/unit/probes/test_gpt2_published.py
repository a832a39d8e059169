"""Published numbers of GPT-2 small. Run where its weights are at hand; else the reason says how to get them run.

Source: TransformerLens, demos/Activation_Patching_in_TL_Demo.ipynb and Attribution_Patching_Demo.ipynb (the eight
prompts, clean logit difference, recovered fractions of every head), Wang et al. 2022, and the ARENA course for the
names of the induction heads. These weights come from others, so nothing here runs unless somebody has them.
"""

from __future__ import annotations

import os
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch

from headlens.data.builtin import read_builtin
from headlens.data.encode import encode
from headlens.lens import Lens, open_model
from headlens.probes import probe
from headlens.probes.pairs import PairData, Row, Rows, pair_data
from headlens.probes.patching import Patched, patch_heads
from headlens.roles import roles

VARIABLE = "HEADLENS_GPT2"


def weights() -> str | None:
    """The folder named by HEADLENS_GPT2, or the one in the hub's cache; None without either."""
    named = os.environ.get(VARIABLE)
    if named:
        return named
    from huggingface_hub import try_to_load_from_cache

    for hub_id in ("openai-community/gpt2", "gpt2"):
        found = try_to_load_from_cache(hub_id, "model.safetensors")
        if isinstance(found, str):
            return str(Path(found).parent)
    return None


if weights() is None:
    pytest.skip(
        f"GPT-2 small is not at hand: set {VARIABLE} to a folder with its config, tokenizer and safetensors",
        allow_module_level=True,
    )

PROMPTS = (
    ("When John and Mary went to the shops, John gave the bag to", " Mary", " John"),
    ("When John and Mary went to the shops, Mary gave the bag to", " John", " Mary"),
    ("When Tom and James went to the park, James gave the ball to", " Tom", " James"),
    ("When Tom and James went to the park, Tom gave the ball to", " James", " Tom"),
    ("When Dan and Sid went to the shops, Sid gave an apple to", " Dan", " Sid"),
    ("When Dan and Sid went to the shops, Dan gave an apple to", " Sid", " Dan"),
    ("After Martin and Amy went to the park, Amy gave a drink to", " Martin", " Amy"),
    ("After Martin and Amy went to the park, Martin gave a drink to", " Amy", " Martin"),
)
"""The notebook's prompts; the corrupted text of each is its neighbour's."""

RECOVERED = {
    **{"L5H5": 0.343, "L8H6": 0.319, "L8H10": 0.278, "L9H9": 0.264, "L7H9": 0.192, "L6H9": 0.130, "L7H3": 0.124},
    **{"L3H0": 0.116, "L10H0": 0.084, "L10H10": 0.061, "L9H7": 0.058, "L10H6": 0.048},
    **{"L10H7": -0.480, "L11H10": -0.278, "L11H2": -0.114, "L9H6": -0.048},
}
"""Recovered fraction by head, as printed in the notebooks (to three digits)."""


@cache
def lens() -> Lens:
    found = weights()
    assert found is not None
    return open_model(found, device="cpu", dtype="float32")


@cache
def ioi() -> PairData:
    """The prompts with the end-of-text token in front, as TransformerLens puts it there."""
    tokenizer = lens().tokenizer
    assert tokenizer is not None
    rows = []
    for prompt, right, foil in PROMPTS:
        ids = torch.tensor([tokenizer.bos_token_id, *tokenizer(prompt)["input_ids"]])
        (one,), (other,) = tokenizer(right)["input_ids"], tokenizer(foil)["input_ids"]
        rows.append(Row({"input_ids": ids, "attention_mask": torch.ones_like(ids)}, len(ids) - 1, one, other))
    return pair_data(lens(), "ioi", Rows(tuple(rows), {}))


@cache
def patched() -> Patched:
    swapped = [i + 1 if i % 2 == 0 else i - 1 for i in range(8)]
    data = ioi()
    examples = tuple(data.data.examples[i] for i in swapped)
    return patch_heads(lens(), data, replace(data, data=replace(data.data, examples=examples)))


def test_clean_and_corrupted_logit_difference() -> None:
    assert patched().clean == pytest.approx(3.5519, abs=2e-3)
    assert patched().corrupted == pytest.approx(-3.5519, abs=2e-3)


@pytest.mark.parametrize(("label", "share"), [*RECOVERED.items()])
def test_head_patching(label: str, share: float) -> None:
    (head,) = lens().topology.parse(label)
    assert patched().recovered["self"][head.layer, head.head] == pytest.approx(share, abs=2e-3)


def test_no_other_head_brings_back_as_much() -> None:
    """The five strongest of the notebook are the five strongest here."""
    found = patched().recovered["self"]
    strongest = [divmod(int(i), 12) for i in np.argsort(-found, axis=None)[:5]]
    assert [f"L{layer}H{head}" for layer, head in strongest] == ["L5H5", "L8H6", "L8H10", "L9H9", "L7H9"]


def test_induction_and_previous_token_heads() -> None:
    texts = encode(lens(), read_builtin("essays", "score"))
    found = roles(lens(), texts, detectors=["induction", "previous-token", "duplicate-token"])
    induction = {head.label: found.of(head)["induction"] for head in found.topology.heads()}
    assert all(induction[label] > 0.8 for label in ("L5H5", "L6H9", "L7H10", "L5H1", "L7H2"))
    previous = found.scores["previous-token"]["self"]
    assert divmod(int(previous.argmax()), 12) == (4, 11)
    assert previous[4, 11] > 0.9
    assert {"L0H1", "L3H0"} <= {head.label for head in found.passing("duplicate-token")}


def test_our_own_pairs() -> None:
    """The model has the skills that are known of it."""
    found = {
        each.skill.name: each for each in probe(lens(), "none", ["induction", "indirect-object", "agreement"]).skills
    }
    assert all(each.known for each in found.values())
    assert all(not each.dropped for each in found.values())
