"""Sentences on the pages: the numbers in them are counted by hand here."""

from __future__ import annotations

import re

import numpy as np
import pytest

from headlens.ui import words

SCORES = {"self": np.array([[0.5, 0.001, -0.2], [0.0, -0.009, np.nan]])}


def count(values: dict[str, np.ndarray], **more: str) -> str:
    options = {"metric": "loss", "method": "ablation", "unit_word": "heads", **more}
    return words.count_sentence(values, total=5, **options)  # type: ignore[arg-type]


def test_heads_that_hardly_matter_are_counted() -> None:
    assert count(SCORES) == (
        "3 of 5 heads change the loss by less than 0.01 nats; 1 other harms: the loss gets better by more without it."
    )


def test_estimates_are_called_so() -> None:
    assert "3 of 5 heads are estimated to change the loss by less than 0.01 nats" in count(SCORES, method="gradient")


def test_it_says_how_many_are_measured_so_far() -> None:
    part = {"self": np.array([[0.5, 0.001, np.nan], [np.nan, np.nan, np.nan]])}
    assert count(part).startswith("1 of 2 heads measured so far (5 in all) change")
    assert count({"self": np.full((2, 3), np.nan)}) == "Nothing is scored yet: 5 heads are waiting."


def test_scores_without_direction_say_how_much_the_top_holds() -> None:
    values = {"self": np.array([[9.0, 1, 1, 1, 1], [1, 1, 1, 1, 1]])}
    assert count(values, method="magnitude") == "The top tenth of the 10 heads holds 50% of the summed score."


@pytest.mark.parametrize(("rank", "total", "percent"), [(1, 270, 99), (270, 270, 0), (1, 1, 0), (3, 12, 75)])
def test_percentile(rank: int, total: int, percent: int) -> None:
    assert words.percentile(rank, total) == percent


def test_where_a_head_looks_hardest() -> None:
    pattern = np.array([[1.0, 0, 0], [0.9, 0.1, 0], [0.5, 0.3, 0.2]])
    said = words.looks_sentence(pattern, ["The", "cat", "sat"], ["The", "cat", "sat"])
    assert said == "Strongest: “sat” at “cat”, 0.30; the first token gets 70% on average."
    said = words.looks_sentence(pattern, ["The", "cat", "sat"], ["The", "cat", "sat"], first_counts=True)
    assert said.startswith("Strongest: “The” at “The”, 1.00")
    assert "patch 2 at patch 1" in words.looks_sentence(pattern, [], [])
    assert words.looks_sentence(np.ones((1, 1)), ["a"], ["a"]) == "There is only one token to look at."


@pytest.mark.parametrize(
    ("seconds", "said"), [(None, "not known"), (0.2, "1 s"), (59, "59 s"), (61, "1 min"), (600, "10 min")]
)
def test_duration(seconds: float | None, said: str) -> None:
    assert said in words.duration(seconds)


def test_a_users_text_never_becomes_markup() -> None:
    assert words.plain("**a** :red[b]\n$x$") == "\\*\\*a\\*\\* \\:red\\[b\\] ⏎ \\$x\\$"


@pytest.mark.parametrize("text", ["A: rank(W_Q W_K^T) <= 30 % - so?", "Place 1 (first)", "1. a > b + c", "1.5 = 3/2!"])
def test_a_controls_name_is_read_without_backslashes_where_nothing_is_markup(text: str) -> None:
    assert words.label(text.replace("<=", "at most")) == text.replace("<=", "at most")


@pytest.mark.parametrize(
    "text", ["*a*", "_a_", "`a`", "$a$", ":red[a]", ":smile:", "[a](b)", "<b>", "~a~", "a &lt; b", "\\"]
)
def test_a_controls_name_never_becomes_markup(text: str) -> None:
    """Each sign that starts markup in the CommonMark rules, or in Streamlit's, stands behind a backslash."""
    written = words.label(text)
    assert written.replace("\\", "") == text.replace("\\", "")
    bare = re.sub(r"\\.", "", written)
    assert not set("*_`$[<~&\\") & set(bare)
    assert ":r" not in bare and ":s" not in bare  # noqa: PT018
