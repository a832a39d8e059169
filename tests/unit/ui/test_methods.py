"""The app's words for methods."""

from __future__ import annotations

import pytest

from headlens.importance import METHODS
from headlens.ui import methods


def test_every_method_has_its_words() -> None:
    """A new method is in the app as soon as it has an entry here; without one this says so."""
    assert list(methods.METHOD_WORDS) == list(METHODS)
    for name, method in METHODS.items():
        assert method.signed <= methods.METHOD_WORDS[name].signed
    assert set(METHODS) - set(methods.COMPARED) == {"random"}


@pytest.mark.parametrize(
    ("method", "metric", "task", "unit"),
    [
        ("ablation", "loss", "causal-lm", "nats"),
        ("ablation", "drift", "embedding", "1 - cosine"),
        ("ablation", "drift", "causal-lm", "nats of KL"),
        ("fisher", "loss", "causal-lm", "nats²"),
    ],
)
def test_units_of_scores(method: str, metric: str, task: str, unit: str) -> None:
    assert methods.unit_of(method, metric, task) == unit
