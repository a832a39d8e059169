"""What is said of a probe, on answers that are made up."""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np
import pytest

from headlens.evaluate import Evaluation, Measured
from headlens.probes import ProbeResult, SkillResult, TextSkill
from headlens.probes.result import percent


def skill(name: str) -> TextSkill:
    return TextSkill(name, name.title(), f"do {name}", "made up")


def answers(right: int, total: int = 40) -> np.ndarray:
    return np.where(np.arange(total) < right, 1.5, -0.5)


def result(off: str = "L0H0", **by_name: tuple[int, int]) -> ProbeResult:
    found = tuple(SkillResult(skill(name), answers(b), answers(a)) for name, (b, a) in by_name.items())
    return ProbeResult("the model", off, "zero", found, {})


def evaluation(before: float, after: float) -> Evaluation:
    loss = Measured(math.log(before), math.log(after), 0.0, 0.0, 0.0)
    return Evaluation("loss", "causal-lm", "L0H0", "zero", {"loss": loss, "drift": loss}, 3, 30)


def test_figures_of_one_skill() -> None:
    each = SkillResult(skill("a"), answers(38), answers(20))
    assert (each.accuracy_before.value, each.accuracy.value) == (0.95, 0.5)
    assert (each.accuracy_change.lost, each.accuracy_change.gained) == (18, 0)
    assert each.difference_before.value == pytest.approx((38 * 1.5 - 2 * 0.5) / 40)
    changes = each.after - each.before
    assert each.difference_change.value == pytest.approx(changes.mean())
    assert each.difference_change.sem == pytest.approx(changes.std(ddof=1) / math.sqrt(40))
    assert each.known


def test_an_equal_logit_is_not_right() -> None:
    assert SkillResult(skill("a"), np.zeros(4), np.zeros(4)).accuracy.value == 0


def test_verdicts() -> None:
    found = result(lost=(40, 22), worse=(40, 30), better=(30, 40), same=(40, 38), unknown=(24, 5), gone=(40, 2))
    assert found.verdicts == {
        "lost": "lost",
        "worse": "worse",
        "better": "better",
        "same": "no change",
        "unknown": "not known",
        "gone": "lost",  # worse than guessing: drawn to the foil
    }
    assert math.isnan(found.p_values["unknown"])
    assert [each.skill.name for each in found.of("lost")] == ["gone", "lost"]


def test_many_skills_need_stronger_evidence() -> None:
    """Six pairs lost and none gained: p = 0.031 alone, not among four skills."""
    alone, among = result(a=(40, 34)), result(a=(40, 34), b=(40, 40), c=(40, 40), d=(40, 40))
    assert alone.verdicts["a"] == "worse"
    assert among.verdicts["a"] == "no change"
    assert among.p_values["a"] == pytest.approx(4 * alone.p_values["a"])


def test_fine_perplexity_and_a_lost_skill() -> None:
    text = result(copy=(38, 22), agree=(40, 40)).sentences(evaluation(12.3, 12.5))
    assert text == ["Perplexity 12.3 -> 12.5, but it can no longer do copy: 95 % -> 55 %. Guessing gives 50 %."]


def test_other_sentences() -> None:
    (text,) = result(copy=(38, 22)).sentences(evaluation(12.3, 40.0))
    assert text.startswith("Perplexity 12.3 -> 40, and it can no longer do copy")
    (text,) = result(copy=(38, 22)).sentences()
    assert text.startswith("It can no longer do copy: 95 % -> 55 %")
    (text,) = result(a=(40, 39), b=(40, 40)).sentences(evaluation(12.3, 12.4))
    assert text.startswith("Perplexity 12.3 -> 12.4, and no change of a skill can be told from chance (largest: do a: ")
    main, unknown = result(a=(40, 30), b=(22, 3)).sentences()
    assert main.startswith("It is worse at some: do a: 100 % -> 75 %")
    assert unknown == "What it cannot do with all heads on either: do b (55 %)."
    (text,) = result(b=(22, 3)).sentences()
    assert text == "the model has none of the skills with all heads on, so nothing can be lost."
    text = result("none", a=(40, 40), b=(22, 22)).sentences()
    assert text[0] == "With all heads on the model can do a (100 %); guessing gives 50 %."
    (text,) = result("none", b=(22, 22)).sentences()
    assert text == "the model has none of the 1 skills: it cannot be told from guessing in any."


def test_json_has_every_figure() -> None:
    import json

    from headlens.cli.output import plain

    found = result(a=(40, 22), b=(22, 22))
    read = json.loads(json.dumps(plain(found.to_json()), allow_nan=False))
    first = read["skills"][0]
    assert first["accuracy_baseline"] == {
        "value": 1.0,
        "low": pytest.approx(0.9119, abs=1e-4),
        "high": 1.0,
        "right": 40,
    }
    assert first["accuracy_change"]["lost"] == 18
    assert first["chance"] == 0.5
    assert first["verdict"] == "lost"
    assert read["skills"][1]["p_value"] is None
    assert percent(cast(Any, first["accuracy"])["value"]) == "55 %"
