"""``roles`` against patterns that transformers gives itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
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
        ("roles", gpt2, "--out", tmp_path / "r.csv", "--method", "gradent"),
    ):
        found = cli(*arguments)
        assert found.code == 2
        assert found.err.startswith("error: ")
        assert found.err.count("\n") == 1


def test_when_the_heads_of_a_role_go(cli: Cli, gpt2: Path, tmp_path: Path) -> None:
    """In the order of the weights' norms, which transformers' own weights give."""
    from scipy.stats import mannwhitneyu
    from transformers import AutoModelForCausalLM

    out, texts = tmp_path / "r.csv", tmp_path / "texts.txt"
    texts.write_text("\n".join(TEXTS))
    found = cli("roles", gpt2, "--data", texts, "--out", out, "--method", "magnitude", "--json").json
    frame = pd.read_csv(out)
    thresholds = {row["role"]: row["threshold"] for row in found["roles"]}
    model: Any = AutoModelForCausalLM.from_pretrained(gpt2).requires_grad_(False)
    norms = {
        f"L{layer}H{head}": float(block.attn.c_proj.weight[part].norm())
        for layer, block in enumerate(model.transformer.h)
        for head, part in enumerate(torch.arange(block.attn.c_proj.weight.shape[0]).chunk(4))
    }
    place = {label: number + 1 for number, label in enumerate(sorted(norms, key=norms.__getitem__))}
    assert found["fates"]["method"] == "magnitude"
    assert found["fates"]["roles"]
    ranks = [one["rank"] for one in found["fates"]["roles"]]
    assert ranks == sorted(ranks, reverse=True)
    for one in found["fates"]["roles"]:
        mine = frame[frame["role"] == one["role"]]
        passing = mine[mine["score"] >= thresholds[one["role"]]]
        heads = {f"L{layer}H{head}" for layer, head in zip(passing["layer"], passing["head"], strict=True)}
        assert set(one["heads"]) == heads
        assert one["scores"] == pytest.approx([norms[label] for label in one["heads"]], rel=1e-5)
        assert one["last_goes_at"] == pytest.approx(max(place[label] for label in heads) / 20)
        own, others = [place[h] for h in heads], [place[h] for h in place if h not in heads]
        if others:
            statistic = float(mannwhitneyu(own, others).statistic)  # type: ignore[attr-defined]
            assert one["rank"] == pytest.approx(statistic / (len(own) * len(others)))
    shown = cli("roles", gpt2, "--data", texts, "--out", out, "--method", "magnitude")
    assert found["fates"]["sentence"] in " ".join(shown.out.split())
    assert "Holm-corrected over the roles" in " ".join(shown.out.split())


def test_without_a_signal_no_role_goes_first(cli: Cli, gpt2: Path, tmp_path: Path) -> None:
    out, texts = tmp_path / "r.csv", tmp_path / "texts.txt"
    texts.write_text("\n".join(TEXTS))
    found = cli("roles", gpt2, "--data", texts, "--out", out, "--method", "gradient", "--json").json
    assert found["fates"]["roles"] == []
    assert found["fates"]["sentence"].startswith("No order in which heads would go: ")
    assert cli("roles", gpt2, "--data", texts, "--out", out, "--json").json["fates"] is None
