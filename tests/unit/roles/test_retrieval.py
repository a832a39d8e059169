"""The retrieval detector: its formula on patterns made by hand, and the prompts that it looks at."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from headlens.roles import DETECTORS, Seen
from headlens.roles import needles as module
from headlens.roles.base import Needle
from headlens.roles.needles import NEEDLES, NeedleTexts, needle_texts
from tests.small_models import byte_tokenizer
from tests.unit.helpers import open_lens
from tests.unit.roles.test_detectors import one_hot

RETRIEVAL = DETECTORS["retrieval"]


def test_each_token_that_is_said_counts_where_the_head_looks_at_it() -> None:
    """Five tokens could be said, three are; the head is at the right token twice, once at another of the sentence."""
    size = 10
    keys = torch.zeros(3, size, dtype=torch.bool)
    keys[0, 2] = keys[1, 3] = keys[2, 4] = keys[2, 5] = True  # the third token stands there twice
    needle = Needle(torch.tensor([7, 8, 9]), keys, 5)
    looks, past, elsewhere = [0] * size, [0] * size, [0] * size
    looks[7:], past[7:], elsewhere[7:] = [2, 4, 5], [2, 3, 6], [9, 9, 9]
    pattern = torch.stack([one_hot(each, size) for each in (looks, past, elsewhere)])[None]
    real = torch.ones(1, size, dtype=torch.bool)
    sums, count = RETRIEVAL.tally(Seen(pattern, real, real, True, needles=(needle,)))
    assert RETRIEVAL.score(sums.numpy()[0], count.numpy()).tolist() == pytest.approx([0.4, 0.4, 0.0])


class Parrot(torch.nn.Module):
    """Says what came after the last earlier copy of the last five tokens, or else the first id."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.vocabulary = vocabulary

    def says(self, ids: list[int]) -> list[int]:
        found = []
        for end in range(len(ids)):
            tail = ids[max(0, end - 4) : end + 1]
            copies = [k for k in range(5, end) if ids[k - 4 : k + 1] == tail]
            found.append(ids[copies[0] + 1] if copies and len(tail) == 5 else 0)
        return found


def lens(positions: int = 1024) -> Any:
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    tokenizer = byte_tokenizer()
    sizes: dict[str, Any] = {
        "n_layer": 1,
        "n_head": 2,
        "n_embd": 16,
        "n_positions": positions,
        "bos_token_id": 1,
        "eos_token_id": 1,
    }
    return open_lens(GPT2LMHeadModel(GPT2Config(**sizes, vocab_size=len(tokenizer))), "causal-lm", tokenizer=tokenizer)


def parroting(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A lens whose model repeats, for the pass that asks what it says."""
    opened = lens()
    parrot = Parrot(opened.vocabulary)

    def readout(output: Any, task: str) -> torch.Tensor:
        ids = opened.asked
        return torch.nn.functional.one_hot(torch.tensor(parrot.says(ids)), opened.vocabulary).float()[None]

    real = opened.forward

    def forward(inputs: Any, run: Any = None) -> Any:
        opened.asked = inputs["input_ids"][0].tolist()
        return real(inputs, run)

    opened.forward = forward
    monkeypatch.setattr(module, "readout", readout)
    return opened


def test_prompts_hold_the_sentence_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = parroting(monkeypatch)
    found = needle_texts(opened, seed=0)
    assert isinstance(found, NeedleTexts)
    assert len(found.data) == len(NEEDLES)
    depths = []
    for example, needle, (question, answer) in zip(found.data.examples, found.needles, NEEDLES, strict=True):
        ids = example.inputs["input_ids"].tolist()
        text = opened.tokenizer.decode(ids)
        assert text.count(question + answer) == 2
        assert text.endswith(question + answer)
        assert needle.length == len(opened.tokenizer(answer)["input_ids"])
        assert len(needle.queries) == needle.length, "the parrot says all of it"
        for query, keys in zip(needle.queries.tolist(), needle.keys, strict=True):
            places = keys.nonzero()[:, 0].tolist()
            assert places
            assert all(ids[place] == ids[query + 1] for place in places)
            assert all(opened.tokenizer.decode(ids[: place + 1]).count(question) == 1 for place in places)
        depths.append(text.index(question) / len(text))
    assert depths == sorted(depths)
    assert depths[0] < 0.25
    assert depths[-1] > 0.6


def test_a_model_that_says_nothing_of_it_has_nothing_to_show() -> None:
    assert needle_texts(lens(), seed=0) is None  # untrained


def test_models_that_read_little_are_left_out() -> None:
    assert needle_texts(lens(positions=200), seed=0) is None


def test_short_models_get_shorter_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = parroting(monkeypatch)
    opened.__dict__["max_positions"] = 300
    found = needle_texts(opened, seed=0)
    assert found is not None
    assert max(example.length for example in found.data.examples) <= 300


def test_only_what_the_model_says_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that says every other token of it, says half of it: not enough to count."""
    opened = parroting(monkeypatch)
    said = Parrot.says
    monkeypatch.setattr(Parrot, "says", lambda self, ids: [w if i % 3 else 0 for i, w in enumerate(said(self, ids))])
    found = needle_texts(opened, seed=0)
    assert found is not None
    shares = [len(needle.queries) / needle.length for needle in found.needles]
    assert all(0.5 < share < 0.9 for share in shares)
    monkeypatch.setattr(
        Parrot, "says", lambda self, ids: [w if i % 3 == 0 else 0 for i, w in enumerate(said(self, ids))]
    )
    assert needle_texts(opened, seed=0) is None
    assert np.isfinite(shares).all()
