"""``roles`` against patterns that transformers gives itself."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import torch

from .conftest import Cli, tokenizer

TEXTS = ("the old cat sang", "a cat sat on the old mat", "the mat sang")


def test_previous_token_scores_are_means_of_the_first_subdiagonal(cli: Cli, gpt2: Path, tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM

    out, texts = tmp_path / "r.csv", tmp_path / "texts.txt"
    texts.write_text("\n".join(TEXTS))
    found = cli("roles", gpt2, "--data", texts, "--out", out, "--json")
    assert found.code == 0
    frame = pd.read_csv(out)
    assert list(frame.columns) == ["site", "layer", "head", "role", "score"]
    assert set(frame.groupby("role").size()) == {20}  # 5 layers of 4 heads
    assert {"previous-token", "induction", "first-token"} <= set(frame["role"])

    model = AutoModelForCausalLM.from_pretrained(gpt2, attn_implementation="eager")
    sums, count = np.zeros((5, 4)), 0
    for text in TEXTS:
        ids = torch.tensor([tokenizer()(text)["input_ids"]])
        with torch.no_grad():
            layers = model(ids, output_attentions=True).attentions
        for layer, pattern in enumerate(layers):
            sums[layer] += pattern[0].diagonal(-1, -2, -1).sum(-1).numpy()
        count += ids.shape[1] - 1
    mine = frame.loc[frame["role"] == "previous-token"].sort_values(by=["layer", "head"])
    np.testing.assert_allclose(mine["score"], (sums / count).ravel(), atol=1e-5)
    (told,) = [row for row in found.json["roles"] if row["role"] == "previous-token"]
    best = mine.loc[mine["score"].idxmax()]
    assert told["best_head"] == f"L{best['layer']}H{best['head']}"
    assert told["passing"] == int((mine["score"] >= told["threshold"]).sum())


def test_mistakes_take_one_line(cli: Cli, gpt2: Path, tmp_path: Path) -> None:
    for arguments in (
        ("roles", gpt2),
        ("roles", gpt2, "--out", tmp_path / "r.npz"),
        ("roles", gpt2, "--out", tmp_path / "no" / "r.csv"),
        ("roles", "nosuch", "--out", tmp_path / "r.csv"),
    ):
        found = cli(*arguments)
        assert found.code == 2
        assert found.err.startswith("error: ")
        assert found.err.count("\n") == 1
