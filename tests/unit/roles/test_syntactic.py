"""The syntactic detector on trees and patterns made by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from headlens.roles import DETECTORS, Seen, roles
from headlens.roles.base import Links
from headlens.roles.parses import KINDS, RELATIONS, _questions, links, parsed_stories
from headlens.roles.syntactic import Syntactic, word_hits
from headlens.zoo import english
from headlens.zoo.grammar import Story
from headlens.zoo.vocabulary import english_tokenizer
from tests.unit.helpers import open_lens

SYNTACTIC = DETECTORS["syntactic"]
assert isinstance(SYNTACTIC, Syntactic)


def story(heads: str, relations: str) -> Story:
    """A tree: heads by index (-1 for the root)."""
    parents = tuple(int(i) for i in heads.split())
    nothing = (None,) * len(parents)
    words = tuple(f"word{i}" for i in range(len(parents)))
    return Story(words, parents, tuple(relations.split()), nothing, nothing, ("x",) * len(parents))


# the old cat saw a mouse .
CAT = story("2 2 3 -1 5 3 3", "det amod nsubj root det obj punct")


def test_relations_are_those_of_the_generator() -> None:
    found: set[str] = set()
    for seed in range(300):
        told = english.story(__import__("random").Random(seed))
        found |= {relation for head, relation in zip(told.heads, told.relations, strict=True) if head >= 0}
    assert found - {"punct"} == {*RELATIONS}
    assert len(KINDS) == 2 * len(RELATIONS)


def kind(name: str, up: bool) -> int:
    return KINDS.index(f"{name}, {'word to head' if up else 'head to word'}")


def test_questions_go_both_ways() -> None:
    asked = _questions(CAT, {*range(7)}, causal=False)
    assert {(k, w, t) for k, w, t in asked} == {
        (kind("det", True), 0, frozenset({2})),
        (kind("amod", True), 1, frozenset({2})),
        (kind("nsubj", True), 2, frozenset({3})),
        (kind("det", True), 4, frozenset({5})),
        (kind("obj", True), 5, frozenset({3})),
        (kind("det", False), 2, frozenset({0})),
        (kind("amod", False), 2, frozenset({1})),
        (kind("nsubj", False), 3, frozenset({2})),
        (kind("det", False), 5, frozenset({4})),
        (kind("obj", False), 3, frozenset({5})),
    }


def test_a_causal_layer_is_asked_only_what_it_can_see() -> None:
    asked = {(k, w, t) for k, w, t in _questions(CAT, {1, 2, 3, 4, 5, 6}, causal=True)}  # the first word is a sink
    assert asked == {
        (kind("obj", True), 5, frozenset({3})),
        (kind("amod", False), 2, frozenset({1})),
        (kind("nsubj", False), 3, frozenset({2})),
        (kind("det", False), 5, frozenset({4})),
    }


def test_a_head_with_several_words_of_one_relation_may_look_at_any() -> None:
    two = story("2 2 -1", "amod amod root")
    asked = _questions(two, {0, 1, 2}, causal=False)
    assert (kind("amod", False), 2, frozenset({0, 1})) in asked


def test_the_best_offset_is_the_one_that_is_right_most_often() -> None:
    """obj three times two to the left, once three: 75 %."""
    near, far = story("-1 2 0", "root det obj"), story("-1 3 3 0", "root det amod obj")
    many = [near] * 30 + [far] * 10
    words = [torch.arange(len(each.words)) for each in many]
    found = links(many, words, causal=False)
    rows = [
        (row, i) for row, each in enumerate(found) for i in range(len(each.kind)) if each.kind[i] == kind("obj", True)
    ]
    baseline = [bool(found[row].baseline[i]) for row, i in rows]
    assert len(baseline) == 40
    assert np.mean(baseline) == 0.75
    seen_kinds = {int(k) for each in found for k in each.kind}
    assert kind("amod", True) not in seen_kinds, "ten words are too few"


def pattern_of(targets: dict[int, int], size: int) -> Tensor:
    found = torch.full((size, size), 1 / size)
    for query, key in targets.items():
        found[query] = 0
        found[query, key] = 1
    return found


def seen(rows: list[tuple[Tensor, Links]], causal: bool = False) -> Seen:
    pattern = torch.stack([each[0] for each in rows])
    real = torch.ones(len(rows), pattern.shape[-1], dtype=torch.bool)
    return Seen(pattern, real, real, causal, links=tuple(each[1] for each in rows))


def score(what: Seen) -> tuple[np.ndarray, np.ndarray]:
    sums, count = SYNTACTIC.tally(what)
    total = sums.double().numpy().sum(0)
    return SYNTACTIC.score(total, count.numpy().sum(0)[None]), SYNTACTIC.detail(total)  # type: ignore[return-value]


def test_a_head_that_follows_the_object_is_found_and_one_with_a_fixed_offset_is_not() -> None:
    near, far = story("-1 2 0 0", "root det obj punct"), story("-1 3 3 0", "root det amod obj")
    many = [near] * 30 + [far] * 30
    found = links(many, [torch.arange(4)] * 60, causal=False)
    knows = [pattern_of({2: 0}, 4)] * 30 + [pattern_of({3: 0}, 4)] * 30
    offset = [pattern_of({i: max(i - 2, 0) for i in range(4)}, 4)] * 60
    heads = [torch.stack([a, b]) for a, b in zip(knows, offset, strict=True)]
    (first, second), words = score(seen(list(zip(heads, found, strict=True))))
    assert first == pytest.approx(0.5)  # 100 % where the best offset gets half
    assert second <= 0
    assert words[0] == "obj, word to head: 100 %, best offset 50 % (60 words)"
    threshold = SYNTACTIC.threshold
    assert threshold is not None
    assert first >= threshold > second


def test_pieces_of_a_word_count_together() -> None:
    """Words are [0], [1, 2], [3]; token 4 is in none. From a word: mean over its pieces; to a word: sum."""
    word_of = torch.tensor([0, 1, 1, 2, -1])
    asked = Links(
        word_of,
        torch.tensor([0, 0]),
        torch.tensor([1, 2]),
        torch.tensor([[False, False, True], [False, True, False]]),
        torch.zeros(2).bool(),
    )
    rows = torch.tensor(
        [
            [1.0, 0, 0, 0, 0],
            [0.4, 0.0, 0.0, 0.1, 0.5],
            [0.0, 0.0, 0.0, 0.5, 0.5],  # means: 0.2 to word 0, 0.3 to word 2
            [0.0, 0.3, 0.3, 0.4, 0.0],  # 0.6 to word 1
            [0, 0, 0, 0, 1.0],
        ]
    )
    assert word_hits(rows[None], asked, causal=False).tolist() == [[True, True]]
    rows[1, 0], rows[1, 4] = 0.8, 0.1  # now 0.4 to word 0
    rows[3] = torch.tensor([0.0, 0.15, 0.15, 0.4, 0.3])
    assert word_hits(rows[None], asked, causal=False).tolist() == [[False, False]]
    assert word_hits(rows[None], asked, causal=True).tolist() == [[True, False]]  # the first position is a sink


def test_all_weight_outside_of_words_is_no_hit() -> None:
    asked = Links(
        torch.tensor([0, -1]), torch.tensor([0]), torch.tensor([0]), torch.tensor([[True]]), torch.zeros(1).bool()
    )
    assert word_hits(torch.tensor([[[0.0, 1.0], [0.0, 1.0]]]), asked, causal=False).tolist() == [[False]]


def small_lens(style: str) -> Any:
    from transformers import BertConfig, BertForMaskedLM, GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    tokenizer = english_tokenizer(style)  # type: ignore[arg-type]
    if style == "causal":
        sizes: dict[str, Any] = {
            "n_layer": 2,
            "n_head": 4,
            "n_embd": 32,
            "n_positions": 128,
            "bos_token_id": 1,
            "eos_token_id": 2,
        }
        return open_lens(
            GPT2LMHeadModel(GPT2Config(**sizes, vocab_size=len(tokenizer))), "causal-lm", tokenizer=tokenizer
        )
    shape: dict[str, Any] = {
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "hidden_size": 32,
        "intermediate_size": 32,
    }
    model = BertForMaskedLM(BertConfig(**shape, vocab_size=len(tokenizer), max_position_embeddings=128))
    return open_lens(model, "masked-lm", tokenizer=tokenizer)


@pytest.mark.parametrize("style", ["causal", "masked"])
def test_stories_are_aligned_with_the_tokenizer(style: str) -> None:
    lens = small_lens(style)
    found = parsed_stories(lens, seed=0)
    assert found is not None
    for example, up, down in zip(found.data.examples, found.one_way, found.both_ways, strict=True):
        ids = example.inputs["input_ids"].tolist()
        assert torch.equal(up.word_of, down.word_of)
        words = [lens.tokenizer.convert_ids_to_tokens(i) for i, word in zip(ids, up.word_of, strict=True) if word >= 0]
        told = english.annotate(english.text(words))
        assert list(told.words) == words
        for k, query, targets in zip(down.kind, down.query, down.targets, strict=True):
            relation, way = KINDS[int(k)].split(", ")
            for target in targets.nonzero()[:, 0].tolist():
                word, head = (int(query), target) if way == "word to head" else (target, int(query))
                assert (told.heads[word], told.relations[word]) == (head, relation)
        assert all(int(targets.nonzero().max()) <= int(q) for q, targets in zip(up.query, up.targets, strict=True))


def test_untrained_models_have_no_syntactic_head() -> None:
    for style in ("causal", "masked"):
        assert roles(small_lens(style), None, detectors=["syntactic"]).passing("syntactic") == []


def test_a_masked_model_with_a_planted_pattern_is_found_end_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pattern of one head is replaced by the parse on its way to the detector."""
    from headlens.roles import tallies

    lens = small_lens("masked")
    parsed = parsed_stories(lens, seed=0)
    assert parsed is not None
    real = tallies.Tallies.__call__

    def planted(self: Any, site: str, layer: int, pattern: Tensor) -> None:
        if layer == 1:
            pattern = pattern.clone()
            for row, index in enumerate(self.batch.indices):
                asked = parsed.both_ways[index]
                for k, query, targets in zip(asked.kind, asked.query, asked.targets, strict=True):
                    if KINDS[int(k)] == "nsubj, word to head":
                        source, target = int(query), int(targets.nonzero()[0, 0])
                        pattern[row, 2, asked.word_of.tolist().index(source)] = 0
                        pattern[row, 2, asked.word_of.tolist().index(source), asked.word_of.tolist().index(target)] = 1
        real(self, site, layer, pattern)

    monkeypatch.setattr(tallies.Tallies, "__call__", planted)
    found = roles(lens, None, detectors=["syntactic"])
    (head,) = found.passing("syntactic")
    assert head.label == "L1H2"
    assert found.detail(head, "syntactic").startswith("nsubj, word to head: 100 %")
    assert found.label(head) == "syntactic"


def test_tokenizers_that_cannot_align_words_are_left_out() -> None:
    lens = small_lens("causal")
    lens.tokenizer = SimpleNamespace(is_fast=False)
    assert parsed_stories(lens, seed=0) is None
    lens.tokenizer = None
    assert parsed_stories(lens, seed=0) is None
