"""Losses of right answers, and skills along a curve: which goes first, and whether the loss tells."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from headlens.lens import open_model
from headlens.probes import Prober, ProbeResult, SkillResult, TextSkill, probe
from headlens.probes.along import SkillCurve, SkillPoint, skills_along

MODEL = "zoo-gpt2-small"


def answers(right: int, total: int = 40) -> np.ndarray:
    return np.where(np.arange(total) < right, 1.0, -1.0)


def skill(name: str) -> TextSkill:
    return TextSkill(name, name.title(), f"do {name}", "made up")


def point(fraction: float, rise: float, **right: int) -> SkillPoint:
    """Skills that start at 40 of 40."""
    skills = tuple(SkillResult(skill(name), answers(40), answers(count)) for name, count in right.items())
    return SkillPoint(fraction, rise, ProbeResult("m", "L0H0", "zero", skills, {}))


def test_a_skill_that_goes_while_the_loss_is_fine_is_named() -> None:
    found = SkillCurve((point(0, 0, copying=40, counting=40), point(0.2, 0.05, copying=20, counting=40)))
    assert found.sentence().startswith("The loss is fine, but a skill is gone: with 20 % of the heads off")
    assert "it can no longer do copying, 100 % -> 50 %" in found.sentence()
    assert "counting" not in found.sentence()


def test_where_the_loss_tells_it_is_said() -> None:
    found = SkillCurve((point(0, 0, copying=40), point(0.2, 0.9, copying=20)))
    assert "here the loss tells" in found.sentence()
    assert "risen by 0.9 nats" in found.sentence()


def test_a_small_fall_is_not_called_lost() -> None:
    found = SkillCurve((point(0, 0, copying=40), point(0.2, 0.0, copying=38)))
    assert found.sentence().startswith("None of 1 skill is surely lost")
    assert found.to_frame()["accuracy"].tolist() == [1.0, 0.95]


def test_points_count_in_the_correction() -> None:
    """19 of 40 after 28: p is about .02 at one point, and not below 5 % among five."""
    one = SkillResult(skill("copying"), answers(30), answers(21))
    result = ProbeResult("m", "L0H0", "zero", (one,), {})
    first = SkillPoint(0, 0, ProbeResult("m", "none", "zero", (one,), {}))
    p_value = result.p_values["copying"]
    assert 0.001 < p_value < 0.05
    alone = SkillCurve((first, SkillPoint(0.1, 0.0, result)))
    many = SkillCurve((first, *(SkillPoint(0.1 * k, 0.0, result) for k in range(1, 40))))
    assert alone.first_lost(one.skill) is not None
    assert many.first_lost(one.skill) is None


def test_the_loss_is_that_of_cross_entropy() -> None:
    lens: Any = open_model(MODEL)
    prober = Prober(lens, limit=6)
    chosen = prober.skills[0]
    data = chosen.data(lens, limit=6)
    batch = data.data.batch(list(range(len(data))))
    with torch.no_grad():
        logits = lens.model(**dict(batch.inputs)).logits
    rows = torch.arange(len(data))
    expected = torch.nn.functional.cross_entropy(logits[rows, data.position], data.right, reduction="none")
    assert data.losses(logits, range(len(data))).numpy() == pytest.approx(expected.double().numpy(), abs=1e-5)
    found = prober.probe("none").skills[0]
    assert found.loss_before == pytest.approx(expected.double().numpy(), abs=1e-4)
    assert found.loss_after == pytest.approx(found.loss_before)


def test_each_point_is_what_probe_says() -> None:
    lens = open_model(MODEL)
    prober = Prober(lens, limit=5)
    off = lens.topology.parse("L0H1,L1H2")
    ticks: list[tuple[int, int]] = []
    found = skills_along(
        prober, [(0.0, 0.0, lens.topology.parse("none")), (0.1, 0.02, off)], on_progress=lambda *at: ticks.append(at)
    )
    expected = probe(lens, off, limit=5)
    for ours, theirs in zip(found.points[1].result.skills, expected.skills, strict=True):
        assert ours.after == pytest.approx(theirs.after, abs=1e-5)
        assert ours.loss_change.value == pytest.approx(float((theirs.loss_after - theirs.loss_before).mean()), abs=1e-5)
    assert ticks[-1] == (2 * prober.passes, 2 * prober.passes)
