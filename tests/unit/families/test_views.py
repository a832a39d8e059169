"""Every model of the zoo has its own natural view: source by target, tokens of a story, patches of a picture."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from headlens.attention import patterns
from headlens.cli.attention import model_inputs, to_arrays
from headlens.data.select import default_for, load_data
from headlens.lens import open_model
from headlens.models.catalogue import zoo_dir

ZOO = sorted(path.parent.name for path in zoo_dir().glob("*/config.json"))


def view(name: str) -> tuple[Any, Any, dict[str, np.ndarray]]:
    """The model, an example of its own set, and what ``headlens attention`` writes for it."""
    lens = open_model(name)
    example = load_data(default_for(lens), task=lens.task, split="held-out", limit=1).examples[0]
    prompt = example.source or example.text or str(example.image)
    return lens, example, to_arrays(lens, patterns(lens, model_inputs(lens, prompt, example.target)))


@pytest.mark.parametrize("name", ZOO)
def test_patterns_are_named_by_what_stands_there(name: str) -> None:
    lens, example, arrays = view(name)
    sites = {"seq2seq": {"enc", "dec", "cross"}}.get(lens.task, {"self"})
    assert {key.removeprefix("pattern_") for key in arrays if key.startswith("pattern_")} == sites
    for site in sites:
        pattern = arrays[f"pattern_{site}"]
        shape = lens.topology.site(site)
        assert pattern.shape[:2] == (len(shape.layers), shape.width("head"))
        assert pattern.shape[2:] == tuple(len(arrays[f"tokens_{site}_{side}"]) for side in ("query", "key"))
        np.testing.assert_allclose(pattern.sum(-1), 1, atol=1e-5)
    if lens.task == "seq2seq":
        source, target = arrays["tokens_cross_key"].tolist(), arrays["tokens_cross_query"].tolist()
        assert source == arrays["tokens_enc_key"].tolist()
        assert target == arrays["tokens_dec_query"].tolist()
        assert example.source.split()[0] in source[0] + source[1]
        assert "".join(target).replace("▁", "").lower().find(example.target[:3].lower()) >= 0
    elif lens.task == "image-classification":
        assert arrays["tokens_self_key"].tolist()[:3] == ["[CLS]", "r0c0", "r0c1"]
        assert arrays["tokens_self_key"].tolist()[-1] == "r7c7"
    else:
        words = [word.strip() for word in arrays["tokens_self_key"].tolist()]
        assert example.text.split()[0].strip(".,").lower() in " ".join(words).lower()
    if lens.task == "causal-lm" or "dec" in sites:
        own = arrays["pattern_self" if "self" in sites else "pattern_dec"]
        assert np.triu(np.nan_to_num(own), 1).max() == 0  # nobody sees what comes later
