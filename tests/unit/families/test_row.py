"""Rows in words, tables and figures: made-up numbers with known answers."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from headlens.charts.families import side_by_side
from headlens.claims.base import Figure, Finding, Series
from headlens.families.measures import MEASURES
from headlens.families.published import PUBLISHED, kind_of
from headlens.families.row import Cut, Row, to_frame
from headlens.families.sentences import sentence

BY_NAME = {measure.name: measure for measure in MEASURES}
LAYERS = Figure("bars", "layer", "cost", (Series("best head alone", ("a", "b", "c", "d"), (0.0,) * 4),))


def finding(value: float | None, low: float | None = None, high: float | None = None) -> Finding:
    verdict = "not measurable" if value is None else "mixed"
    return Finding(verdict, value, low, high, "share", "Said.", LAYERS)


def row(model: str, kind: str = "decoder", texts: str = "sets", **values: tuple[float, float, float]) -> Row:
    findings = {measure.name: finding(None) for measure in MEASURES}
    findings |= {name.replace("_", "-"): finding(*numbers) for name, numbers in values.items()}
    facts = {"title": model, "family": "gpt2", "task": "causal-lm", "kind": kind, "heads": 12, "metric": "loss"}
    facts |= {"limit": 0.1, "unit": "nats", "data": "stories", "texts": texts, "tokens": 100}
    return Row(model=model, score_examples=3, held_out_examples=4, findings=findings, **facts)


ROWS = [
    row("one", removable=(0.2, 0.1, 0.3), single_head=(0.25, 0.0, 0.5)),
    row("two", "encoder-decoder", "halves", removable=(0.5, 0.4, 0.6), cross=(0.3, 0.1, 0.5)),
    row("three", "vision", removable=(0.1, 0.0, 0.1)),
]


def test_a_sentence_has_the_range_the_median_and_the_sure_ones() -> None:
    said = sentence(BY_NAME["removable"], ROWS)
    assert "from 10 % (three) to 50 % (two)" in said
    assert "the median of 3 models is 20 %" in said
    assert "in 1 of 3 it is surely 30 % or more" in said
    assert "0.1 nats of loss" in said


def test_halves_of_one_set_are_not_called_text_sets() -> None:
    rows = [row("own", texts="halves"), row("other", texts="sets")]
    rows = [
        replace(r, findings={**r.findings, "texts": finding(v, v - 0.1, v + 0.1)})
        for r, v in zip(rows, (0.9, 0.4), strict=True)
    ]
    said = sentence(BY_NAME["texts"], rows)
    assert said.startswith("Between different text sets the least alike ranking has a correlation 0.40 (other)")
    assert "the two halves of the model's own set the least alike ranking has a correlation 0.90 (own)" in said
    assert "surely alike in 0 of 1 model;" in said


def test_what_no_model_has_is_said() -> None:
    assert "no model that has been measured has cross-attention" in sentence(BY_NAME["cross"], [ROWS[0]])


def test_the_figure_has_the_intervals_and_the_published_number() -> None:
    drawn = json.loads(str(side_by_side(BY_NAME["removable"], ROWS).to_json()))
    published, ours = drawn["data"]
    assert ours["x"] == pytest.approx([20, 50, 10])
    assert ours["error_x"]["array"] == pytest.approx([10, 10, 0])
    assert ours["error_x"]["arrayminus"] == pytest.approx([10, 10, 10])
    assert dict(zip(published["y"], published["x"], strict=True)) == {"one": 70, "two": 20}


def test_every_row_survives_json_and_the_table() -> None:
    cut = Cut("L0H0", 0.9, 0.8, 0.01, 1.0, 0.5, 100)
    kept = replace(ROWS[1], cut=cut, seconds={"removable": 1.5})
    again = Row.from_json(json.loads(json.dumps(kept.to_json())))
    assert again == kept
    assert "accuracy goes from 90 % to 80 %" in cut.sentence()
    assert "100 % of 100 numbers are written without a mistake, then 50 %" in cut.sentence()
    frame = to_frame([kept])
    removable = frame[frame["measure"] == "removable"].iloc[0]
    assert (removable["value"], removable["published_value"], removable["seconds"]) == (0.5, 0.2, 1.5)
    assert "grade N" in removable["published"]
    assert kept.layers == 4


@pytest.mark.parametrize(
    ("family", "task", "cross", "grouped", "kind"),
    [
        ("gpt2", "causal-lm", False, False, "decoder"),
        ("llama", "causal-lm", False, True, "grouped"),
        ("deepseek_v3", "causal-lm", False, False, "latent"),
        ("bert", "masked-lm", False, False, "encoder"),
        ("bert", "embedding", False, False, "encoder"),
        ("t5", "seq2seq", True, False, "encoder-decoder"),
        ("vit", "image-classification", False, False, "vision"),
    ],
)
def test_kinds(family: str, task: str, cross: bool, grouped: bool, kind: str) -> None:
    assert kind_of(family, task, cross=cross, grouped=grouped) == kind


def test_published_numbers_are_about_measures_that_there_are() -> None:
    assert {name for name, _ in PUBLISHED} <= set(BY_NAME)
    assert "nothing found for this kind" in ROWS[2].published(BY_NAME["removable"])
