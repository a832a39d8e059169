"""A model made by hand in which one head does all the work: every method must put it first, the control must not.

Vocabulary 8 and at most 8 positions, as one-hot halves of the residual stream. The texts have period 2
(a b a b ...), so the next token is the one before. Head L1H1 looks at the previous position and copies what it sees;
the other heads and the MLPs write next to nothing. Without L1H1 the model says the current token again, which is wrong.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from headlens.data.encode import EncodedData
from headlens.importance import METHODS, Request
from headlens.importance.score import score
from headlens.lens import Lens
from headlens.metrics import METRICS
from tests.unit.helpers import open_lens, pack, sentence

PLANTED = ("self", 1, 1)


@cache
def planted() -> Lens:
    torch.manual_seed(0)
    config = GPT2Config(n_layer=3, n_head=2, n_embd=16, n_positions=8, vocab_size=8, bos_token_id=0, eos_token_id=0)
    model = GPT2LMHeadModel(config).double().eval()
    for parameter in model.parameters():
        parameter.data = parameter.data * 0.1 if parameter.dim() > 1 else torch.zeros_like(parameter)
    core: Any = model.transformer
    for norm in [core.ln_f, *(n for block in core.h for n in (block.ln_1, block.ln_2))]:
        norm.weight.data.fill_(1.0)
    core.ln_f.weight.data.fill_(1.5)  # not so sure of itself that no gradient is left
    core.wte.weight.data = torch.cat([torch.eye(8), torch.zeros(8, 8)], 1).double()
    core.wpe.weight.data = torch.cat([torch.zeros(8, 8), torch.eye(8)], 1).double()
    attention: Any = core.h[1].attn
    query, key, value = (attention.c_attn.weight.data[:, 16 * i + 8 : 16 * i + 16] for i in range(3))  # of head 1
    for part in (query, key, value):
        part.zero_()
    for position in range(8):
        key[8 + position, position] = 2.0
        query[8 + position, max(position - 1, 0)] = 2.0
        value[position, position] = 1.0
    attention.c_proj.weight.data[8:16] = torch.cat([torch.eye(8), torch.zeros(8, 8)], 1) * 0.6
    return open_lens(model, "causal-lm")


def texts() -> EncodedData:
    return pack(sentence([a, b] * 4) for a, b in ((1, 2), (3, 4), (5, 6), (7, 1), (2, 6), (4, 7)))


@pytest.mark.parametrize(
    ("name", "metric", "options"),
    [
        *(("ablation", metric, {"ablation": kind}) for metric in METRICS for kind in ("zero", "mean", "resample")),
        ("gradient", "loss", {}),
        ("gradient", "loss", {"signed": True}),
        ("fisher", "loss", {}),
        *((name, "loss", {}) for name in METHODS if name not in ("ablation", "gradient", "fisher", "random")),
    ],
)
def test_every_method_puts_it_first(name: str, metric: str, options: dict) -> None:
    scores = score(planted(), METHODS[name], Request(METRICS[metric], texts(), **options))
    assert scores.ranked()[0] == PLANTED
    first, second = np.sort(scores.flat())[::-1][:2]
    assert first > 0, "positive means that the head helps"
    assert first > 1.2 * second


def test_the_control_does_not() -> None:
    request = [Request(METRICS["loss"], seed=seed) for seed in range(20)]
    firsts = [score(planted(), METHODS["random"], one).ranked()[0] for one in request]
    assert firsts.count(PLANTED) < 10
    assert len(set(firsts)) > 3


def test_a_harmful_head_is_negative() -> None:
    """On texts whose next token is the current one the same head only harms."""
    repeated = pack(sentence([a, a, a, b, b, b]) for a, b in ((1, 2), (3, 4), (5, 6), (7, 1)))
    for metric in ("loss", "accuracy"):
        scores = score(planted(), METHODS["ablation"], Request(METRICS[metric], repeated))
        assert scores.array[1, 1] < 0
    signed = score(planted(), METHODS["gradient"], Request(METRICS["loss"], repeated, signed=True))
    assert signed.array[1, 1] < 0
