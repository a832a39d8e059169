"""The rare-word detector on patterns made by hand."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
from torch import Tensor

from headlens.roles import DETECTORS, Seen, roles
from headlens.roles.frequency import token_counts
from headlens.roles.rare import LEAST_KEYS
from tests.unit.helpers import TASKS, build, open_lens, pack, sentence
from tests.unit.roles.test_detectors import one_hot
from tests.unit.tiny_tokenizer import tiny_tokenizer

RARE = DETECTORS["rare-word"]
N = 8


def seen(
    *heads: Tensor, frequency: list[int], causal: bool = False, special: tuple[int, ...] = (), length: int = N
) -> Seen:
    pattern = torch.stack(heads)[None]
    real = torch.arange(N)[None] < length
    marked = torch.zeros(1, N, dtype=torch.bool)
    marked[0, list(special)] = True
    return Seen(pattern, real, real, causal, frequency=torch.tensor([frequency]), special=marked)


def score(what: Seen) -> tuple[list[float], int]:
    sums, count = RARE.tally(what)
    return RARE.score(sums.double().numpy()[0], count.numpy()).tolist(), int(count)


def test_the_rarest_token_is_the_target() -> None:
    often = [9, 8, 7, 1, 6, 5, 4, 3]
    rare, previous, common = one_hot([3] * N, N), one_hot([0, 0, 1, 2, 3, 4, 5, 6], N), one_hot([0] * N, N)
    assert score(seen(rare, previous, common, frequency=often)) == (pytest.approx([1, 1 / 8, 0]), 8)


def test_a_causal_layer_knows_only_what_was_before() -> None:
    """The rarest so far is at 1, from position 5 on at 5; the first position never counts."""
    often = [1, 5, 8, 9, 7, 2, 6, 6]
    so_far = one_hot([0, 1, 1, 1, 1, 5, 5, 5], N)
    last = one_hot([0, 1, 2, 3, 4, 5, 5, 5], N)
    found, count = score(seen(so_far, last, frequency=often, causal=True))
    assert count == N - LEAST_KEYS  # fewer than five to choose from before
    assert found == pytest.approx([1, 1])
    before = one_hot([0, 1, 1, 1, 1, 1, 1, 1], N)
    assert score(seen(before, frequency=often, causal=True))[0] == pytest.approx([0])


def test_special_tokens_and_padding_are_no_words() -> None:
    often = [1, 5, 4, 9, 7, 8, 6, 1]
    head = one_hot([2] * N, N)
    found, count = score(seen(head, frequency=often, special=(0,), length=7))
    assert (found, count) == (pytest.approx([1]), 6)
    on_special = torch.zeros(N, N)
    on_special[:, 0], on_special[:, 2] = 0.9, 0.1  # most of it rests on the special token: among words it is at 2
    assert score(seen(on_special, frequency=often, special=(0,), length=7))[0] == pytest.approx([1])


def test_where_two_are_equally_rare_nothing_counts() -> None:
    assert score(seen(one_hot([3] * N, N), frequency=[9, 8, 7, 1, 1, 5, 4, 3]))[1] == 0


def test_few_positions_give_no_score_and_many_do() -> None:
    lens = open_lens(build("gpt2"), TASKS["gpt2"], tokenizer=tiny_tokenizer())
    rng = np.random.default_rng(0)
    few = pack(sentence((rng.permutation(20)[:12] + 3).tolist()) for _ in range(4))
    many = pack(sentence((rng.permutation(20)[:12] + 3).tolist()) for _ in range(40))
    assert np.isnan(roles(lens, few, detectors=["rare-word"]).scores["rare-word"]["self"]).all()
    found = roles(lens, many, detectors=["rare-word"])
    assert np.isfinite(found.scores["rare-word"]["self"]).all()


def test_counts_are_of_the_data_and_of_the_built_in_english_texts() -> None:
    from headlens.data.builtin import read_builtin

    tokenizer = tiny_tokenizer()
    lens = open_lens(build("gpt2"), TASKS["gpt2"], tokenizer=tokenizer)
    data = pack([sentence([3, 4, 4]), sentence([4, 5])])
    found = token_counts(lens, data)
    assert {i: found["input_ids"][i] for i in (3, 4, 5, 6)} == {3: 1, 4: 3, 5: 1, 6: 0}
    texts = [
        e.text or e.source or ""
        for s in ("stories", "essays", "dialogue", "news", "letters", "reviews", "en-de")
        for e in read_builtin(s, "all").examples
    ]
    unknown = sum(len(text.split()) for text in texts)  # none of these words is in the tiny vocabulary
    assert found["input_ids"][1] == unknown
    assert found["decoder_input_ids"][1] == sum(
        len((e.target or "").split()) for e in read_builtin("en-de", "all").examples
    )


def test_a_model_of_the_zoo_counts_its_own_set() -> None:
    from headlens.data.builtin import read_builtin

    lens = open_lens(build("gpt2"), TASKS["gpt2"], tokenizer=tiny_tokenizer())
    lens.model.config.headlens_data = "small-english"
    found = token_counts(lens, pack([sentence([3, 4])]))["input_ids"]
    words = Counter(len(e.text.split()) for e in read_builtin("small-english", "all").examples if e.text)
    assert found[1] == sum(length * count for length, count in words.items())
