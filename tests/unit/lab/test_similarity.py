"""Dependence and alikeness of heads, on heads whose answer is known."""

from __future__ import annotations

import numpy as np
import pytest

from headlens.lab.similarity import answer, linear_cka, similarity

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 5))


def test_cka_is_one_up_to_rotation_and_scale_and_ignores_shifts() -> None:
    rotation, _ = np.linalg.qr(RNG.normal(size=(5, 5)))
    assert linear_cka(X, 3 * X @ rotation + 7) == pytest.approx(1)
    assert linear_cka(X, X @ np.diag([9.0, 1, 1, 1, 1])) < 0.99


def test_cka_is_the_formula_of_kornblith_et_al() -> None:
    y = RNG.normal(size=(60, 3)) + X[:, :3]
    a, b = X - X.mean(0), y - y.mean(0)
    expected = np.linalg.norm(b.T @ a) ** 2 / (np.linalg.norm(a.T @ a) * np.linalg.norm(b.T @ b))
    assert linear_cka(X, y) == pytest.approx(expected)


def test_a_head_that_is_the_sum_of_two_others_is_found() -> None:
    written = RNG.normal(size=(4, 50, 6)).astype(np.float32)
    free = similarity(written)
    assert (free.rank, free.independent) == (4, True)
    written[3] = 2 * written[0] - written[1]
    bound = similarity(written)
    assert (bound.rank, bound.independent) == (3, False)
    assert bound.smallest < 1e-6
    assert "linearly dependent in 1 of 1 layers" in answer([bound], "At initialisation")
    assert "linearly independent in all 1 layers" in answer([free], "At initialisation")


def test_independent_heads_can_carry_the_same_information() -> None:
    """Each head writes the same numbers into dimensions of its own: no head is a combination of the others."""
    written = np.zeros((3, 40, 12))
    for head in range(3):
        written[head, :, 4 * head : 4 * head + 4] = X[:40, :4]
    found = similarity(written)
    assert found.rank == 3
    assert found.smallest == pytest.approx(1)
    assert found.mean_cka == pytest.approx(1)
    assert found.shuffled < 0.2


def test_one_head_and_silent_heads() -> None:
    alone = similarity(RNG.normal(size=(1, 10, 3)))
    assert (alone.rank, alone.heads) == (1, 1)
    assert "single head" in answer([alone], "After training")
    silent = similarity(np.zeros((2, 10, 3)))
    assert silent.rank == 0
