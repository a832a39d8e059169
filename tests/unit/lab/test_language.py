"""The comparison on small English: exact entropy, cutting, switching, and what the rows come to."""

from __future__ import annotations

import math
from dataclasses import replace
from random import Random

import pytest
import torch
from scipy import stats

from headlens.errors import HeadlensError
from headlens.lab import language as lm
from headlens.lab import language_measure as measure
from headlens.lab import language_pruning as pruning
from headlens.lab.language_results import cells, difference, sentences, sharing_sentences
from headlens.lab.statistics import paired
from headlens.zoo import english

TINY = lm.Language(heads=4, width=32, d_head=8, mlp=32, steps=6, batch=2)
TEXT = measure.stories("test", 3)


def spread(spec: lm.Language) -> torch.nn.Module:
    model = lm.untrained(spec)
    source = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn(weight.shape, generator=source) * 0.2)
    return model.eval()


def test_the_excess_is_loss_minus_the_stories_information() -> None:
    """Story by story with plain transformers, and the grammar's own probabilities."""
    model = spread(TINY)
    found = measure.excess(model, TEXT, d_head=8)
    rng = Random("lab|test")
    for row in range(3):
        words = english.story(rng).words
        length = int(TEXT.mask[row].sum())
        assert length == len(words) + 2
        ids = TEXT.ids[row : row + 1, :length]
        with torch.no_grad():
            loss = float(model(input_ids=ids, labels=ids).loss) * (length - 1)
        information = -sum(english.GRAMMAR.log_probabilities(words))
        assert float(found[row]) == pytest.approx(loss - information, rel=1e-4)


def test_a_cut_model_equals_the_switched_one() -> None:
    model = spread(TINY)
    small, spec = pruning.cut(model, TINY, {0: (1, 3), 1: (0, 2)})
    assert spec == replace(TINY, heads=2)
    switched = measure.excess(model, TEXT, {0: [0, 2], 1: [1, 3]}, 8)
    assert torch.allclose(measure.excess(small, TEXT, d_head=8), switched, atol=1e-3)
    assert not torch.allclose(measure.excess(model, TEXT, d_head=8), switched, atol=1e-2)
    assert all(not module._forward_pre_hooks for module in model.modules())
    with pytest.raises(ValueError, match="alike in every layer"):
        pruning.cut(model, TINY, {0: (1,), 1: (0, 2)})


def test_greedy_pruning_takes_the_least_harmful_head_first() -> None:
    model = spread(TINY)
    gone = pruning.greedy(model, TINY, 2, TEXT)
    assert len(gone) == 4
    single = {
        (layer, head): measure.gap(measure.excess(model, TEXT, {layer: [head]}, 8), TEXT).value
        for layer in range(2)
        for head in range(4)
    }
    assert gone[0][0] == min(single, key=single.__getitem__)
    assert gone[0][1] == pytest.approx(min(single.values()))
    kept = pruning.kept_heads(TINY, [each for each, _ in gone])
    assert {layer: len(heads) for layer, heads in kept.items()} == {0: 2, 1: 2}


def test_the_gaps_error_is_over_stories() -> None:
    losses = torch.tensor([10.0, 20.0, 60.0], dtype=torch.float64)
    text = measure.Stories(torch.zeros(3, 11), torch.ones(3, 11, dtype=torch.int64), torch.zeros(3))
    found = measure.gap(losses, text)
    assert found.value == pytest.approx(3)
    assert found.sem == pytest.approx(stats.sem([1.0, 2.0, 6.0]))  # equal lengths: plain mean of nats a token


@pytest.mark.parametrize(("sharing", "numbers"), [("mha", 64), ("gqa", 16), ("mqa", 16), ("mla", 32)])
def test_caches_by_hand(sharing: lm.Sharing, numbers: int) -> None:
    """2 layers, 2 bytes: 4 heads of 8 wide with keys and values of their own leave 2 x 4 x 8 numbers a layer."""
    spec = replace(TINY, sharing=sharing)
    assert spec.kv_bytes == 2 * 2 * numbers


@pytest.mark.parametrize("sharing", lm.SHARINGS)
def test_every_way_of_sharing_trains_and_can_be_switched(sharing: lm.Sharing) -> None:
    spec = replace(TINY, sharing=sharing, d_head=16, steps=2)
    model = lm.train(lm.untrained(spec), spec)
    changed = measure.excess(model, TEXT, {1: [0]}, 16)
    assert not torch.allclose(changed, measure.excess(model, TEXT, d_head=16), atol=1e-6)
    assert 0 <= pruning.prunable_within(model, replace(spec, heads=4), 0.01, TEXT, TEXT) <= 1


def test_training_in_two_parts_reads_the_same_stories() -> None:
    """The second part starts with fresh averages of AdamW, so weights differ, but batches and rates do not."""
    seen: list[torch.Tensor] = []

    def recorded(model: torch.nn.Module) -> torch.nn.Module:
        model.register_forward_pre_hook(
            lambda _m, _args, kwargs: seen.append(kwargs["input_ids"].clone()), with_kwargs=True
        )
        return model

    lm.train(recorded(lm.untrained(TINY)), TINY)
    whole, seen[:] = list(seen), []
    model = recorded(lm.untrained(TINY))
    lm.train(model, TINY, last=4)
    lm.train(model, TINY, first=4)
    assert len(whole) == len(seen) == 6
    assert all(torch.equal(a, b) for a, b in zip(whole, seen, strict=True))


def test_heads_that_cannot_be_shared_are_refused() -> None:
    with pytest.raises(HeadlensError, match="6 heads cannot be shared as gqa"):
        lm.Language(heads=6, sharing="gqa")
    with pytest.raises(HeadlensError, match="unknown sharing"):
        lm.Language(sharing="all")  # type: ignore[arg-type]


def rows(arm: str, gaps: list[float], heads: int = 4) -> list[dict[str, object]]:
    return [{"arm": arm, "heads": heads, "seed": seed, "gap": gap, "flops": 1e9} for seed, gap in enumerate(gaps)]


def test_paired_differences_are_students() -> None:
    first, second = [0.3, 0.5, 0.4, 0.6], [0.2, 0.3, 0.4, 0.2]
    found = paired(first, second)
    expected = stats.ttest_rel(first, second).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))
    assert math.isnan(paired([1.0], [2.0]).low)


def test_sentences_follow_the_data() -> None:
    base = [0.2, 0.21, 0.19]
    for shift, word in ((-0.1, "better"), (0.1, "worse")):
        found = cells(rows("scratch", base) + rows("pruned-80", [gap + shift for gap in base]))
        (sentence,) = sentences(found)
        assert f"{shift:+.3f}" in sentence
        assert word in sentence
    (sentence,) = sentences(cells(rows("scratch", base) + rows("pruned-80", [0.1, 0.4, 0.2])))
    assert "not decided" in sentence
    (sentence,) = sentences(cells(rows("scratch", [0.2]) + rows("pruned-80", [0.1])))
    assert "one seed, no interval" in sentence


def test_only_seeds_that_both_have_are_compared() -> None:
    scratch, pruned = cells(rows("scratch", [0.2, 0.3, 0.9]) + rows("pruned-80", [0.1, 0.2]))
    assert difference(pruned, scratch).mean == pytest.approx(-0.1)


def test_sharing_is_told_against_mha() -> None:
    both = [
        {**row, "kv_bytes": size, "prunable": 0.25, "parameters": 1}
        for name, size, gaps in (("mha", 1024, [0.1, 0.11]), ("mqa", 128, [0.2, 0.21]))
        for row in rows(name, gaps, 8)
    ]
    (sentence,) = sharing_sentences(both)
    assert sentence.startswith("MQA: a cache 8 times smaller, gap +0.100")
    assert "worse" in sentence
