"""Marks, worked out by hand."""

from __future__ import annotations

import pytest

from headlens.errors import DataError
from headlens.interview.bank import load_bank
from headlens.interview.grading import mark_all, mark_choice, mark_free, mark_number, mark_order, read_number
from headlens.interview.quantities import Live, live
from headlens.interview.questions import Choice, ChooseAll, Free, Number, Order
from headlens.interview.shape import GPT2_SMALL

BANK = load_bank()
CITE = ({"id": "arithmetic", "grade": "D"},)
BASE = {"id": "x", "topic": "speed", "level": 1, "ask": "What?", "explain": "Because.", "sources": CITE}


def choose_all(*right: bool) -> ChooseAll:
    options = [{"text": f"option {n}", "why": "so it is", "right": yes} for n, yes in enumerate(right)]
    return ChooseAll.model_validate({**BASE, "kind": "all", "options": options})


def order(count: int) -> Order:
    items = [{"text": f"item {n}", "why": "so it is"} for n in range(count)]
    return Order.model_validate({**BASE, "kind": "order", "first": "small", "last": "big", "items": items})


def test_a_choice_is_right_or_wrong() -> None:
    question = BANK["main-question"]
    assert isinstance(question, Choice)
    assert mark_choice(question, question.key).right
    for other in set(range(len(question.options))) - {question.key}:
        assert (mark_choice(question, other).score, mark_choice(question, other).right) == (0.0, False)


def test_choose_all_counts_every_call_and_guessing_earns_little() -> None:
    question = choose_all(True, True, False, False)
    assert mark_all(question, {0, 1}).right
    assert mark_all(question, {0, 1}).score == 1
    assert mark_all(question, {0}).score == 0.5  # three of four calls
    assert mark_all(question, {0}).note == "1 missed"
    assert mark_all(question, {0, 1, 2, 3}).score == 0
    assert mark_all(question, set()).score == 0
    assert mark_all(question, {2, 3}).score == 0
    assert mark_all(question, {0, 2}).note == "1 missed, 1 wrongly chosen"


def test_order_counts_pairs() -> None:
    question = order(4)
    assert mark_order(question, [0, 1, 2, 3]).right
    assert mark_order(question, [3, 2, 1, 0]).score == 0
    swapped = mark_order(question, [1, 0, 2, 3])
    assert (swapped.score, swapped.right, swapped.note) == (pytest.approx(2 * 5 / 6 - 1), False, "5 of 6 pairs")
    with pytest.raises(DataError, match="one place"):
        mark_order(question, [0, 0, 2, 3])


@pytest.mark.parametrize(
    ("typed", "unit", "value"),
    [
        ("36864", "bytes", 36864),
        ("36,864", "bytes", 36864),
        (" 36 KiB ", "bytes", 36864),
        ("36.864 kB", "bytes", 36864),
        ("36864 bytes", "bytes", 36864),
        ("1.5 MiB", "bytes", 1572864),
        ("12.5", "%", 12.5),
        ("12.5 %", "%", 12.5),
        ("12.5%", "%", 12.5),
        ("1.2e6", "parameters", 1_200_000),
        ("1.2 million", "parameters", 1_200_000),
        ("1.2M", "parameters", 1_200_000),
        ("196608 parameters", "parameters", 196608),
        ("2 GiB", "MiB", 2048),
        ("2048", "MiB", 2048),
        ("269", "MB", 269),
        ("0.27 GB", "MB", 270),
        ("-3", "", -3),
        ("1 234", "pairs", 1234),
        ("64", "", 64),
    ],
)
def test_numbers_are_read_as_people_write_them(typed: str, unit: str, value: float) -> None:
    assert read_number(typed, unit) == pytest.approx(value)


@pytest.mark.parametrize("typed", ["", "many", "12,5", "1,23", "12 parsecs", "1e", "0x10", "nan", "inf", "1;2", "5 %"])
def test_what_is_no_number_is_told_in_one_line(typed: str) -> None:
    with pytest.raises(DataError) as caught:
        read_number(typed, "bytes")
    assert "\n" not in str(caught.value)


def test_a_number_has_a_tolerance_and_slips_are_named() -> None:
    question = BANK["kv-bytes"]
    assert isinstance(question, Number)
    truth = live(question.quantity, GPT2_SMALL)
    assert truth.value == 36_864
    assert mark_number(question, "36 KiB", truth).right
    assert mark_number(question, "36,900", truth).right
    assert not mark_number(question, "38,000", truth).right
    half = mark_number(question, "18432", truth)
    assert not half.right
    assert "one factor of 2 is missing" in half.note
    exact = BANK["sc-passes"]
    assert isinstance(exact, Number)
    passes = live(exact.quantity, GPT2_SMALL)
    assert mark_number(exact, "145", passes).right
    assert not mark_number(exact, "144", passes).right
    assert "pairs" in mark_number(exact, str(144 * 143 // 2), passes).note


def test_no_slip_is_called_a_slip_where_it_is_the_truth() -> None:
    question = BANK["kv-bytes"]
    assert isinstance(question, Number)
    truth = live(question.quantity, GPT2_SMALL)  # no sharing, so the slip "query heads" is the right answer here
    assert mark_number(question, str(truth.value), truth).note == ""


def test_zero_is_a_number() -> None:
    question = BANK["kv-query-head"]
    assert isinstance(question, Number)
    truth = Live(0, "bytes", "", GPT2_SMALL)
    assert mark_number(question, "0", truth).right
    assert not mark_number(question, "1", truth).right


def test_a_free_answer_needs_its_musts_and_most_points() -> None:
    question = BANK["red-one-minute"]
    assert isinstance(question, Free)
    musts = {number for number, point in enumerate(question.points) if point.must}
    everything = set(range(len(question.points)))
    assert mark_free(question, everything).right
    assert mark_free(question, everything).score == 1
    enough = musts | {max(everything)}
    assert mark_free(question, enough).right
    assert not mark_free(question, musts).right  # 3 of 6 are less than 60 %
    missing = mark_free(question, everything - {min(musts)})
    assert not missing.right
    assert question.points[min(musts)].text in missing.note
