"""Budgets, on curves with known numbers."""

from __future__ import annotations

import dataclasses

import pytest

from headlens.errors import HeadlensError
from headlens.pruning.budget import Budget, describe, parse_budget, sentence, within
from tests.unit.pruning import made_up

RANKED = [2.0, 2.01, 2.05, 2.04, 2.30, 3.0]
RANDOM = {0: [2.0, 2.3, 2.5, 2.6, 2.9, 3.0], 1: [2.0, 2.01, 2.2, 2.5, 2.6, 3.0]}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("loss+1%", Budget("loss", 1, True)),
        ("loss + 0.05", Budget("loss", 0.05, False)),
        ("Perplexity+2", Budget("perplexity", 2, False)),
        ("accuracy-.01", Budget("accuracy", 0.01, False)),
        ("accuracy-1%", Budget("accuracy", 1, True)),
        ("drift+0", Budget("drift", 0, False)),
        ("bleu-0.5", Budget("bleu", 0.5, False)),
    ],
)
def test_reading(text: str, wanted: Budget) -> None:
    assert parse_budget(text) == wanted
    assert parse_budget(str(wanted)) == wanted


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("loss-1%", "loss gets worse as it rises; write loss"),
        ("accuracy+1", "accuracy gets worse as it falls"),
        ("drift+1%", "0 with every head on"),
        ("lossy+1", "not understood"),
        ("loss+", "not understood"),
        ("loss+1%%", "not understood"),
        ("loss+-1", "not understood"),
        ("", "not understood"),
        ("loss+1e99999", "not understood"),
    ],
)
def test_what_is_no_budget(text: str, said: str) -> None:
    with pytest.raises(HeadlensError, match=said):
        parse_budget(text)


def test_the_largest_share_within() -> None:
    curve = made_up.curve({"ranked": RANKED, "reverse": [2.0, 2.5, 2.6, 2.7, 2.8, 3.0], **RANDOM})
    found = within(curve, parse_budget("loss+1%"))
    assert found.limit == pytest.approx(0.02)
    reach = found.reach["ranked"]
    assert (reach.fraction, reach.broken) == (0.2, False)
    assert found.reach["reverse"].best is None
    assert [one.fraction for one in found.random] == [0, 0.2]
    text = sentence(found)
    assert "20 % of the heads (4), for 0.01 ± 0." in text
    assert text.endswith("2 random orders: 0 to 20 %.")
    # 0.04 is within 2.2 %, and 0.05 before it is not.
    broken = within(curve, parse_budget("loss+2.2%")).reach["ranked"]
    assert (broken.fraction, broken.broken) == (0.6, True)
    assert "take this one with care" in sentence(within(curve, parse_budget("loss+2.2%")))
    assert within(curve, parse_budget("loss+1")).reach["ranked"].fraction == 1


def test_a_budget_that_nothing_meets() -> None:
    curve = made_up.curve({"ranked": RANKED, **RANDOM}, sem=0.004)
    found = within(curve, parse_budget("loss+0.1%"))
    assert found.reach["ranked"].best is None
    text = sentence(found)
    assert "nothing; already 20 % of the heads (4) costs 0.01 ± 0.004; take a smaller --step" in text
    assert text.endswith("2 random orders: 0 %.")
    json = describe(curve, found)
    assert (json["met"], json["series"]["ranked"]["best"]) == (False, None)


def test_the_error_bar_counts() -> None:
    # One-sided 95 % of t with 19 degrees of freedom: 1.729
    curve = made_up.curve({"ranked": RANKED}, sem=0.02)
    reach = within(curve, parse_budget("loss+0.06")).reach["ranked"]
    assert reach.best is not None
    assert reach.sure is not None
    assert (reach.best.fraction, reach.sure.fraction) == (0.6, 0.2)  # 0.01 + 0.0346 is within, 0.04 + 0.0346 is not
    assert "only 20 % of the heads (4) is sure" in sentence(within(curve, parse_budget("loss+0.06")))
    none = within(curve, parse_budget("loss+0.04"))
    assert none.reach["ranked"].sure is None
    assert "no step is sure to be within" in sentence(none)
    unknown = made_up.curve({"ranked": RANKED}, sem=float("nan"))
    assert within(unknown, parse_budget("loss+1")).reach["ranked"].sure is None


@pytest.mark.parametrize("figure", ["accuracy", "bleu"])
def test_where_more_is_better(figure: str) -> None:
    curve = made_up.curve({"ranked": [0.8, 0.81, 0.79, 0.7, 0.5]}, figure=figure)
    assert within(curve, parse_budget(f"{figure}-0.015")).reach["ranked"].fraction == 0.5
    assert within(curve, parse_budget(f"{figure}-0")).reach["ranked"].fraction == 0.25
    assert within(curve, parse_budget(f"{figure}-20%")).reach["ranked"].fraction == 0.75
    assert "lower than 0.8" in sentence(within(curve, parse_budget(f"{figure}-0.015")))


def test_figures_that_are_not_there() -> None:
    curve = made_up.curve({"ranked": [0.0, 0.1, 0.2]}, figure="drift")
    assert within(curve, parse_budget("drift+0.1")).reach["ranked"].fraction == 0.5
    with pytest.raises(HeadlensError, match="no loss for embedding models"):
        within(curve, parse_budget("loss+1%"))


def test_learned_gates_are_told_beside_the_order() -> None:
    curve = made_up.curve({"ranked": [1.0, 2.0, 3.0], "gates": [1.0, 1.05, 3.0]}, sem=0.01)
    assert sentence(within(curve, parse_budget("loss+10%"))).endswith(
        "Learned gates: 50 % of the heads (10), for 0.05 ± 0.01."
    )
    assert sentence(within(curve, parse_budget("loss+1%"))).endswith("Learned gates: no set is within.")
    none = made_up.curve({"ranked": [1.0, 2.0, 3.0], "gates": [1.0, 1.0, 3.0]})
    opened = dataclasses.replace(none, points=tuple(p for p in none.points if p.series != "gates" or not p.heads_off))
    assert sentence(within(opened, parse_budget("loss+10%"))).endswith(
        "Learned gates closed no head; that takes more steps or a larger penalty."
    )
    assert "gates" not in sentence(within(made_up.curve({"ranked": [1.0, 2.0, 3.0]}), parse_budget("loss+10%")))
