"""Split-half reliability against a simulation whose reliability is known, and Spearman against scipy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import spearmanr

from headlens.reliability import spearman, split_half


@pytest.mark.parametrize("seed", range(5))
def test_spearman_equals_scipy(seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=40), rng.integers(0, 5, size=40).astype(float)  # b has ties
    assert spearman(a, b) == pytest.approx(spearmanr(a, b)[0], abs=1e-12)
    assert spearman(a, np.exp(a)) == pytest.approx(1)
    assert spearman(a, -a) == pytest.approx(-1)


def test_spearman_of_a_constant_is_not_a_number() -> None:
    assert np.isnan(spearman(np.zeros(5), np.arange(5)))


def simulated(examples: int, heads: int, noise: float, rng: np.random.Generator) -> tuple[dict, dict]:
    """Each head has a true score of variance 1, each example adds noise of variance ``noise ** 2``."""
    truth = rng.normal(size=(1, 1, heads))
    values = truth + noise * rng.normal(size=(examples, 1, heads))
    return {"self": values}, {"self": np.ones(examples)}


@pytest.mark.parametrize("noise", [2.0, 6.0, 12.0])
def test_known_reliability(noise: float) -> None:
    """The mean of n examples has reliability 1 / (1 + noise^2 / n); Spearman's r is a little below Pearson's."""
    rng = np.random.default_rng(0)
    examples = 36
    found = []
    for _ in range(12):
        reliability = split_half(*simulated(examples, 400, noise, rng), splits=8)
        assert reliability is not None
        found.append(reliability)
    half = 1 / (1 + noise**2 / (examples / 2))
    rank = 6 / np.pi * np.arcsin(half / 2)  # Spearman's r of a bivariate normal with Pearson's r `half`
    assert np.mean(found) == pytest.approx(2 * rank / (1 + rank), abs=0.03)


def test_pure_noise_has_none() -> None:
    rng = np.random.default_rng(3)
    found = [split_half({"self": rng.normal(size=(20, 1, 200))}, {"self": np.ones(20)}, splits=10) for _ in range(10)]
    assert abs(np.mean([r for r in found if r is not None])) < 0.1


def test_weights_count() -> None:
    """Contributions are divided by the weight of the half, so heavy examples with equal rates change nothing."""
    rng = np.random.default_rng(4)
    truth = rng.normal(size=(1, 2, 30))
    weight = rng.integers(1, 50, size=12).astype(float)
    assert split_half({"self": truth * weight[:, None, None]}, {"self": weight}) == pytest.approx(1)


def test_limits() -> None:
    rng = np.random.default_rng(5)
    assert split_half({}, {}) is None
    for examples, expected in ((3, False), (4, True)):
        found = split_half(*simulated(examples, 10, 0.1, rng))
        assert (found is not None) == expected
    assert split_half({"self": np.ones((8, 2, 3))}, {"self": np.ones(8)}) is None
    # Gone heads are left out; several sites are ranked together.
    numerator, denominator = simulated(10, 20, 0.0, rng)
    gone = np.concatenate([numerator["self"], np.full((10, 1, 5), np.nan)], axis=2)
    assert (
        split_half({"enc": gone, "dec": numerator["self"]}, {**denominator, "enc": np.ones(10), "dec": np.ones(10)})
        == 1
    )


def test_the_seed_draws_the_halves() -> None:
    rng = np.random.default_rng(6)
    data = simulated(9, 20, 3.0, rng)
    assert split_half(*data, seed=1) == split_half(*data, seed=1)
    assert split_half(*data, seed=1) != split_half(*data, seed=2)


def test_normalised_layers_are_compared_as_shown() -> None:
    """Two layers whose scale differs a thousandfold from example to example: only normalised halves agree."""
    rng = np.random.default_rng(7)
    truth = rng.normal(size=(1, 2, 12))
    scale = 10.0 ** rng.uniform(-2, 2, size=(16, 2, 1))
    values = {"self": truth * scale}
    weight = {"self": np.ones(16)}
    assert split_half(values, weight, normalize=True) == pytest.approx(1)
    plain = split_half(values, weight)
    assert plain is not None
    assert plain < 0.999
