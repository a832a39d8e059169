"""Whether a ranking beats chance: against hand-made curves, simulation, and a ranking that is chance itself."""

from __future__ import annotations

import math

import numpy as np
import pytest

from headlens.importance import METHODS
from headlens.metrics import METRICS
from headlens.pruning.chance import chance, prediction, sentence
from headlens.pruning.curve import CurveSpec, curve
from headlens.pruning.plan import Steps
from tests.unit.helpers import lens_for, random_data
from tests.unit.pruning import made_up

RANDOM = {0: [1, 2.0, 3.0, 5], 1: [1, 2.2, 3.1, 5], 2: [1, 1.9, 3.3, 5], 3: [1, 2.1, 3.2, 5]}


def test_better_worse_and_not_told_apart() -> None:
    found = chance(made_up.curve({"ranked": [1, 1.1, 3.2, 5], **RANDOM}))
    assert [band.verdict for band in found.bands] == ["not measured", "better", "not told apart", "not measured"]
    assert found.overall == "better"
    assert found.ahead == [pytest.approx(0.35)]
    assert (found.bands[1].least, found.bands[1].most) == (1.9, 2.2)
    assert found.bands[1].mean == pytest.approx(2.05)
    # t(0.975, 3) = 3.182446
    sd = np.std([2.0, 2.2, 1.9, 2.1], ddof=1)
    assert found.bands[1].low == pytest.approx(2.05 - 3.182446 * sd * math.sqrt(1.25), rel=1e-6)
    worse = chance(made_up.curve({"ranked": [1, 4.1, 3.2, 5], **RANDOM}))
    assert worse.overall == "worse"
    assert worse.fractions("worse") == [pytest.approx(0.35)]


def test_where_more_is_better_the_verdicts_turn() -> None:
    found = chance(made_up.curve({"ranked": [1, 4.1, 3.2, 5], **RANDOM}, figure="accuracy"))
    assert found.overall == "better"
    assert len(found.fractions("better")) == 1
    assert found.ahead == [pytest.approx(0.35)]
    assert not chance(made_up.curve({"ranked": [1, 1.95, 3.15, 5], **RANDOM})).ahead


def test_without_random_orders_nothing_is_said() -> None:
    for values in (
        {"ranked": [1, 2, 3]},
        {"ranked": [1, 2, 3], 0: [1, 3, 3]},
        {"ranked": [1, 3], 0: [1, 3], 1: [1, 3]},
    ):
        one = made_up.curve(values)
        found = chance(one)
        assert found.overall == "not measured"
        assert sentence(one, found).startswith("Nothing says whether")


def test_sentence_has_the_numbers() -> None:
    one = made_up.curve({"ranked": [1, 1.1, 3.2, 5], **RANDOM})
    text = sentence(one, chance(one))
    assert text.startswith("On the held-out examples the gradient order beats chance (mean loss over the steps 2.15,")
    assert "better at 35 %, not told apart at 65 % of the heads off." in text
    assert text.endswith("It is ahead of all 4 random orders at 35 %.")
    same = made_up.curve({"ranked": [1, 1.1, 3.2, 5], **RANDOM}, held_out=False)
    assert sentence(same, chance(same)).startswith("On the examples that it was chosen on")


def test_prediction_covers_95_percent() -> None:
    rng = np.random.default_rng(0)
    inside = 0
    for _ in range(4000):
        values = rng.normal(3, 2, 6)
        low, high = prediction(values[:5].tolist())
        inside += low <= values[5] <= high
    assert inside / 4000 == pytest.approx(0.95, abs=0.012)
    assert all(math.isnan(x) for x in prediction([1.0]))


def test_the_band_covers_a_random_ranking() -> None:
    """A ranking by chance is not called better or worse, but for the one time in twenty that a 95 % range allows."""
    lens, _ = lens_for("gpt2")
    data = random_data("gpt2", 12)
    steps = Steps(lens.topology, step=0.25)
    verdicts = []
    for seed in range(100, 120):
        spec = CurveSpec(METHODS["random"], METRICS["loss"], steps, random=5, seed=seed)
        verdicts.append(chance(curve(lens, None, data, spec)).overall)
    assert verdicts.count("not told apart") >= 17
