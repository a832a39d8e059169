"""Claims about training on stored runs made up so that they hold and so that they fail."""

from __future__ import annotations

from typing import Any

import pytest

from headlens.claims.base import NotMeasurable
from headlens.claims.during import prunable_during_training, removable
from headlens.claims.training import scratch_worse, scratch_worse_bits, sharing_keeps
from tests.unit.claims.test_verdicts import FLAT, STEEP
from tests.unit.lab.invented import always, never, results, stuck_with_few, study
from tests.unit.pruning import made_up


def rows(scratch: list[float], pruned: list[float]) -> list[dict[str, Any]]:
    return [
        {"arm": arm, "heads": 2, "seed": seed, "gap": gap, "flops": 1.0}
        for arm, gaps in (("scratch", scratch), ("pruned-80", pruned))
        for seed, gap in enumerate(gaps)
    ]


def test_scratch_worse() -> None:
    assert scratch_worse(rows([0.3, 0.31, 0.29], [0.1, 0.12, 0.1]), "").verdict == "holds"
    assert scratch_worse(rows([0.1, 0.12, 0.1], [0.3, 0.31, 0.29]), "").verdict == "fails"
    assert scratch_worse(rows([0.3, 0.1, 0.2], [0.1, 0.3, 0.2]), "").verdict == "mixed"
    assert scratch_worse(rows([0.3], [0.1]), "").verdict == "mixed"  # one seed has no interval


def test_scratch_worse_on_the_bit_task() -> None:
    made = study(12)
    worse = scratch_worse_bits(list(results(made, stuck_with_few).values()), "")
    better = scratch_worse_bits(list(results(made, always, never).values()), "")
    same = scratch_worse_bits(list(results(made, always).values()), "")
    assert [found.verdict for found in (worse, better, same)] == ["holds", "fails", "mixed"]
    assert worse.value == pytest.approx(1 - 4 / 12)
    assert better.value == -1
    with pytest.raises(NotMeasurable, match="no pruned model"):
        scratch_worse_bits([], "")


def shared(gqa: list[float]) -> list[dict[str, Any]]:
    arms = (("mha", [0.10, 0.11, 0.10], 64), ("gqa", gqa, 16))
    return [
        {"arm": arm, "heads": 8, "seed": seed, "gap": gap, "prunable": 0.3, "kv_bytes": size, "parameters": 1}
        for arm, gaps, size in arms
        for seed, gap in enumerate(gaps)
    ]


def removed(gaps: list[float]) -> list[dict[str, Any]]:
    """Eight heads pruned to as many as leave a cache of the same size, and to others that do not count."""
    arms = (("large", 8, [0.1] * 3), ("pruned-80", 4, [0.0] * 3), ("pruned-80", 2, gaps), ("scratch", 2, [9.0] * 3))
    return [
        {"arm": arm, "heads": heads, "seed": seed, "gap": gap}
        for arm, heads, found in arms
        for seed, gap in enumerate(found)
    ]


def test_sharing_keeps() -> None:
    worse, better, unclear = removed([0.3, 0.31, 0.29]), removed([0.01, 0.02, 0.0]), removed([0.0, 0.4, 0.1])
    good, bad = shared([0.11, 0.12, 0.11]), shared([0.31, 0.32, 0.31])
    assert sharing_keeps(good, "", worse).verdict == "holds"
    assert sharing_keeps(good, "", better).verdict == "fails"
    assert sharing_keeps(bad, "", worse).verdict == "fails"
    for rows, others in ((good, unclear), (good, []), (shared([0.05, 0.35, 0.1]), worse)):
        assert sharing_keeps(rows, "", others).verdict == "mixed"
    found = sharing_keeps(good, "", worse)
    assert found.value == pytest.approx(0.01)
    assert "4 times smaller" in found.sentence
    assert "removing heads down to the same cache is 0.187 worse" in found.sentence
    assert "no stored run says" in sharing_keeps(good, "").sentence


def test_prunable_during_training() -> None:
    flat = removable(made_up.curve({"ranked": FLAT}))
    steep = removable(made_up.curve({"ranked": STEEP}))
    assert (flat[0], steep[0]) == (0.6, 0.1)  # a tenth of 2 nats
    assert prunable_during_training([("100", steep), ("end", flat)]).verdict == "holds"
    assert prunable_during_training([("100", flat), ("end", steep)]).verdict == "fails"
    assert prunable_during_training([("100", (0.1, 0.0, 0.4)), ("end", (0.3, 0.2, 0.5))]).verdict == "mixed"
