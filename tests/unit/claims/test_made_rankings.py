"""Claims on rankings, run from end to end on models in which the right ranking is known; see :mod:`.made_models`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from headlens.claims import rankings
from headlens.claims.base import NotMeasurable
from headlens.claims.initial import IndependentAtInit
from headlens.claims.rankings import MethodsAgree, Replicates, ZeroMeanAgree
from tests.unit.claims.made_models import context, examples, lines, made
from tests.unit.helpers import VOCAB, open_lens, random_data

KINDS = range(24)
GRADED = np.linspace(0.1, 1.2, 24)


def unrelated() -> np.ndarray:
    """Sizes whose order has nothing to do with the place."""
    for seed in range(10_000):
        drawn = np.random.default_rng(seed).permutation(24)
        if abs(float(np.corrcoef(drawn, np.arange(24))[0, 1])) < 0.02:  # of ranks: Spearman's
            return 1 + drawn.astype(float)
    raise AssertionError("no such order")


def test_methods_agree() -> None:
    found = MethodsAgree().check(context(made(GRADED), examples(KINDS, 3)))
    assert found.verdict == "holds"
    assert found.value == pytest.approx(1)
    # From 2 on a head says so much that the loss hardly moves with the gate (x sigmoid(-x) falls), though more is lost
    # without it; and the size of its weights is made to say nothing.
    strong = np.linspace(2, 14, 24)
    found = MethodsAgree().check(context(made(strong, magnitude=unrelated() / strong), examples(KINDS, 3)))
    assert found.verdict == "fails"
    assert "gradient and ablation -1.00" in found.sentence


def test_zero_mean_agree() -> None:
    # Every kind comes with both signs, so the mean of what a head says is zero: the two ways are the same.
    found = ZeroMeanAgree().check(context(made(GRADED), examples(KINDS, 3)))
    assert found.verdict == "holds"
    # What a head always says is only missed if zero takes its place, and these are in the opposite order.
    always = np.linspace(4, 1, 24)
    found = ZeroMeanAgree().check(context(made(GRADED, always=always), examples(KINDS, 3)))
    assert found.verdict == "fails"
    assert found.value is not None
    assert found.value < -0.9


@pytest.mark.parametrize(("backwards", "verdict"), [(False, "holds"), (True, "fails")])
def test_replicates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backwards: bool, verdict: str) -> None:
    """Two texts in which kind k comes k times, or 25 - k times."""
    often = [kind for kind in KINDS for _ in range(kind + 1)]
    other = [23 - kind for kind in often] if backwards else often
    sets = {}
    for name, kinds in (("one", often), ("other", other)):
        path = tmp_path / f"{name}.txt"
        path.write_text("\n".join(lines(kinds, 1)) + "\n", encoding="utf-8")
        sets[name] = (str(path), "all")
    monkeypatch.setattr(rankings, "sets_for", lambda _: sets)
    found = Replicates().check(context(made([1.0] * 24), examples(KINDS, 1)))
    assert found.verdict == verdict


def test_a_model_that_knows_nothing_has_no_ranking_to_replicate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "text.txt"
    path.write_text("\n".join(lines(KINDS, 1)) + "\n", encoding="utf-8")
    monkeypatch.setattr(rankings, "sets_for", lambda _: dict.fromkeys(("one", "other"), (str(path), "all")))
    ignorant = made([-1.0] * 24, base=-3.0)  # always rather wrong
    with pytest.raises(NotMeasurable, match="at least two rankings with a signal"):
        Replicates().check(context(ignorant, examples(KINDS, 1)))


class Copies(GPT2LMHeadModel):
    """Starts with heads that are copies of each other."""

    def __init__(self, config: GPT2Config) -> None:
        super().__init__(config)
        width, size = config.n_embd, config.n_embd // config.n_head
        core: Any = self.transformer
        with torch.no_grad():
            for block in core.h:
                for part in range(0, 3 * width, width):
                    weight = block.attn.c_attn.weight
                    weight[:, part + size : part + 2 * size] = weight[:, part : part + size]
                block.attn.c_proj.weight[size : 2 * size] = 2 * block.attn.c_proj.weight[:size]


@pytest.mark.parametrize(("kind", "verdict"), [(GPT2LMHeadModel, "holds"), (Copies, "fails")])
def test_independent_at_init(kind: type[GPT2LMHeadModel], verdict: str) -> None:
    config = GPT2Config(n_layer=2, n_head=4, n_embd=32, n_positions=32, vocab_size=VOCAB, bos_token_id=0)
    lens = open_lens(kind(config), "causal-lm")
    found = IndependentAtInit().check(context(lens, random_data("gpt2", 20, seed=1)))
    assert found.verdict == verdict
    assert found.value == (1 if verdict == "holds" else 0)
