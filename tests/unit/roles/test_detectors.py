"""Each detector on patterns made by hand, whose scores can be read off."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from headlens.roles import DETECTORS, Repeat, Seen

N = 6


def one_hot(keys: list[int], size: int = N) -> Tensor:
    """A pattern in which query i looks at ``keys[i]`` alone."""
    return torch.nn.functional.one_hot(torch.tensor(keys), size).float()


def seen(*heads: Tensor, causal: bool = True, length: int | None = None, **more: object) -> Seen:
    pattern = torch.stack(heads)[None]
    real = torch.arange(pattern.shape[-1])[None] < (length or pattern.shape[-1])
    return Seen(pattern, real[:, : pattern.shape[-2]], real, causal, **more)  # type: ignore[arg-type]


def score(role: str, what: Seen) -> list[float]:
    """Score of each head."""
    detector = DETECTORS[role]
    sums, count = detector.tally(what)
    assert sums.shape == (1, what.pattern.shape[1], detector.bins)
    return detector.score(sums.double().numpy().sum(0), count.numpy().sum(0)[None]).tolist()


PREVIOUS = one_hot([0, 0, 1, 2, 3, 4])
OWN = one_hot([0, 1, 2, 3, 4, 5])
NEXT = one_hot([1, 2, 3, 4, 5, 5])
FIRST = one_hot([0, 0, 0, 0, 0, 0])
UNIFORM = torch.ones(N, N).tril() / torch.arange(1, N + 1)[:, None]


@pytest.mark.parametrize(
    ("role", "wanted"),
    [
        ("previous-token", [1, 0, 0.2, np.mean([1 / (i + 1) for i in range(1, 6)])]),
        ("self", [0, 1, 0, np.mean([1 / (i + 1) for i in range(1, 6)])]),
        ("first-token", [0.2, 0, 1, np.mean([1 / (i + 1) for i in range(1, 6)])]),
        ("distance", [5 / 6, 0, 15 / 6, np.mean([i / 2 for i in range(6)])]),
        ("positional", [1, 1, 0.2, 0.2]),
        ("broad", [0, 0, 0, 1]),
    ],
)
def test_causal_positions(role: str, wanted: list[float]) -> None:
    assert score(role, seen(PREVIOUS, OWN, FIRST, UNIFORM)) == pytest.approx(wanted, abs=1e-6)


@pytest.mark.parametrize(
    ("role", "wanted"),
    [
        ("next-token", [1, 0, 0]),
        ("previous-token", [0, 0, 1]),
        ("self", [1 / 6, 1, 1 / 6]),
        ("positional", [5 / 6, 1, 5 / 6]),
    ],
)
def test_positions_in_both_directions(role: str, wanted: list[float]) -> None:
    found = score(role, seen(NEXT, OWN, PREVIOUS, causal=False))
    assert found == pytest.approx(wanted)


def test_padding_does_not_count() -> None:
    junk = torch.full((N, N), 1 / N)
    padded = torch.cat([PREVIOUS[:4], junk[4:]])
    assert score("previous-token", seen(padded, length=4)) == pytest.approx([1])
    assert score("positional", seen(padded, length=4)) == pytest.approx([1])
    assert score("distance", seen(padded, length=4)) == pytest.approx([3 / 4])
    forward = torch.cat([NEXT[:3], OWN[3:4], junk[4:]])
    assert score("next-token", seen(forward, causal=False, length=4)) == pytest.approx([1])


def test_positional_tells_far_offsets_apart_only_within_its_reach() -> None:
    size = 60
    near, far = (one_hot([max(0, i - d) for i in range(size)], size) for d in (16, 17))
    one, other = score("positional", seen(near, far))
    assert one == pytest.approx(44 / 59)
    assert other < 0.05


def test_broad_is_entropy_over_its_maximum() -> None:
    half = torch.zeros(N, N)
    half[:, :2] = 0.5
    assert score("broad", seen(half, causal=False)) == pytest.approx([math.log(2) / math.log(6)])
    assert score("broad", seen(half, causal=False, length=4)) == pytest.approx([0.5])
    assert DETECTORS["broad"].threshold == 0.78


def test_separators_and_punctuation_count_where_they_can_be_seen() -> None:
    marks = torch.tensor([[False, False, True, False, True, False]])
    none = torch.zeros_like(marks)
    on_mark = one_hot([0, 1, 2, 2, 4, 4])
    half = torch.zeros(N, N)
    half[:, 2], half[:, 0] = 0.5, 0.5
    for role, kinds in (("separator", (marks, none)), ("punctuation", (none, marks))):
        made = seen(on_mark, half, separators=kinds[0], punctuation=kinds[1])
        assert score(role, made) == pytest.approx([1, 0.5])  # queries 2 to 5 see one
        both = seen(on_mark, half, causal=False, separators=kinds[0], punctuation=kinds[1])
        assert score(role, both) == pytest.approx([4 / 6, 0.5])
    with np.errstate(invalid="ignore"):
        assert np.isnan(score("separator", seen(on_mark, separators=none, punctuation=marks))).all()


def test_copying_roles_on_a_block_twice() -> None:
    repeat = Repeat(front=1, block=3, times=2)  # positions: start, a b c, a b c
    duplicate = one_hot([0, 0, 0, 0, 1, 2, 3], 7)
    induction = one_hot([0, 0, 0, 0, 2, 3, 4], 7)
    neither = one_hot([0, 0, 1, 2, 3, 4, 5], 7)
    made = seen(duplicate, induction, neither, repeat=repeat)
    assert score("duplicate-token", made) == pytest.approx([1, 0, 0])
    assert score("induction", made) == pytest.approx([0, 1, 0])


def test_prefix_matching_is_the_mean_over_all_targets() -> None:
    repeat = Repeat(front=0, block=2, times=3)  # a b a b a b
    even = torch.zeros(6, 6)
    for query, targets in {2: [1], 3: [2], 4: [1, 3], 5: [2, 4]}.items():
        even[query, targets] = 1 / len(targets)
    last = one_hot([0, 0, 1, 2, 3, 4])  # only the most recent copy
    assert score("prefix-matching", seen(even, last, repeat=repeat)) == pytest.approx([4 / 6, 4 / 6])
    assert score("prefix-matching", seen(OWN, repeat=repeat)) == pytest.approx([0])


def test_every_detector_says_what_it_is() -> None:
    for name, detector in DETECTORS.items():
        described = detector.describe()
        assert described["name"] == name
        assert all(described[key] for key in ("title", "formula", "source", "unit"))
        assert (described["threshold"] is None) == (described["threshold_source"] == "")
