"""Smaller and faster: verdicts on made-up sizes and times."""

from __future__ import annotations

import pytest

from headlens.claims.speed import smaller_and_faster
from headlens.pruning.benchmark import Timing
from headlens.pruning.timing import change, within_noise


def timings(cut: float, masked: float) -> list[Timing]:
    """Seven rounds; the full model against itself differs by at most 1 %."""
    full = [1.0] * 7
    again = [1.0, 1.01, 0.99, 1.0, 1.0, 1.01, 0.99]
    noise = change(again, full)
    found = [Timing("full", "prefill", 4, tuple(full), 128, None, None)]
    for name, factor in (("full again", None), ("masked", masked), ("cut", cut)):
        seconds = again if factor is None else [factor * x for x in again]
        changed = change(seconds, full)
        is_noise = None if factor is None else within_noise(changed, noise)
        found.append(Timing(name, "prefill", 4, tuple(seconds), 128, changed, is_noise))
    return found


@pytest.mark.parametrize(
    ("after", "cut", "masked", "verdict"),
    [
        (80, 0.8, 1.0, "holds"),
        (80, 1.2, 1.0, "fails"),
        (100, 0.8, 1.0, "fails"),
        (80, 0.8, 0.8, "fails"),
        (80, 1.0, 1.0, "mixed"),
    ],
)
def test_smaller_and_faster(after: int, cut: float, masked: float, verdict: str) -> None:
    found = smaller_and_faster(100, after, timings(cut, masked))
    assert found.verdict == verdict
    assert found.value == pytest.approx(cut - 1)
