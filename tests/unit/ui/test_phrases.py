"""Words of the pages Attention and Switchboard."""

from __future__ import annotations

import math

import numpy as np
import pytest

from headlens.evaluate import Evaluation, Measured
from headlens.generation import Continuation, Continuations, Step
from headlens.tokens import TokenLabel
from headlens.ui import phrases
from headlens.ui.effects import change_looks

NAN = float("nan")


def _evaluation(task: str, **measured: Measured) -> Evaluation:
    return Evaluation(next(iter(measured)), task, "L0H0", "zero", measured, 4, 100)


def _label(text: str) -> TokenLabel:
    return TokenLabel(text, 1, text, surface=text)


def _text(*words: str) -> Continuation:
    return Continuation(tuple(Step(1, _label(word), 0.25) for word in words), "length")


def test_language_models_get_loss_perplexity_accuracy_and_kl() -> None:
    found = _evaluation(
        "causal-lm",
        loss=Measured(2.0, 2.5, 0.1, 0.1, 0.05),
        accuracy=Measured(0.5, 0.4, 0.01, 0.01, 0.02),
        drift=Measured(0.0, 0.3, 0.0, 0.04, 0.04),
    )
    shown = {figure.title: figure for figure in phrases.figures(found, switched=True)}
    assert list(shown) == ["Loss", "Perplexity", "Accuracy", "Drift (KL)"]
    assert (shown["Loss"].value, shown["Loss"].delta) == ("2.5000", "+0.5000")
    assert shown["Loss"].note == "before 2.0000; change ± 0.0500"
    assert shown["Perplexity"].value == f"{math.exp(2.5):.2f}"
    # The ratio of perplexities is exp(change of loss), with the error that a small change of it gives.
    assert shown["Perplexity"].note == f"before {math.exp(2):.2f}; × {math.exp(0.5):.3f} ± {math.exp(0.5) * 0.05:.3f}"
    assert (shown["Accuracy"].value, shown["Accuracy"].delta) == ("40.0%", "-10.0%")
    assert shown["Accuracy"].note == "before 50.0%; change ± 2.0 points"
    assert shown["Accuracy"].up_is_good
    assert not shown["Loss"].up_is_good
    assert shown["Drift (KL)"].note == "± 0.0400 nats for each prediction"


def test_nothing_off_shows_no_change() -> None:
    found = _evaluation("causal-lm", loss=Measured(2.0, 2.0, 0.1, 0.1, 0.0))
    shown = phrases.figures(found, switched=False)
    assert [figure.delta for figure in shown] == [None, None]
    assert {figure.note for figure in shown} == {"all heads on"}


def test_classifiers_have_no_perplexity_and_encoders_only_drift() -> None:
    loss = Measured(1.0, 1.2, 0.1, 0.1, NAN)
    titles = [figure.title for figure in phrases.figures(_evaluation("text-classification", loss=loss), switched=True)]
    assert titles == ["Loss"]
    drift = _evaluation("embedding", drift=Measured(0.0, 0.1, 0.0, NAN, NAN))
    (figure,) = phrases.figures(drift, switched=True)
    assert (figure.title, figure.note) == ("Drift", "1 − cosine of the embeddings")


def test_an_error_that_is_not_known_is_not_shown() -> None:
    found = _evaluation("causal-lm", loss=Measured(2.0, 2.5, NAN, NAN, NAN))
    assert "±" not in " ".join(figure.note for figure in phrases.figures(found, switched=True))


def test_where_two_texts_part() -> None:
    same = Continuations(_text("a", "b"), _text("a", "b"), None, "none")
    assert phrases.continuation_sentence(same) == "Both texts are the same, token by token (2 tokens)."
    parted = Continuations(_text("a", "b"), _text("a", "c"), 1, "L0H0")
    assert "at token 2: “b” (25%) with all heads on, “c” (25%) with the heads off" in phrases.continuation_sentence(
        parted
    )
    ended = Continuations(_text("a", "b"), _text("a"), 1, "L0H0")
    assert "the end with the heads off" in phrases.continuation_sentence(ended)


def test_where_a_head_looks_leaves_the_first_token_out() -> None:
    pattern = np.array([[1.0, 0.0, 0.0], [0.9, 0.1, 0.0], [0.5, 0.1, 0.4]])
    labels = [_label(text) for text in "xyz"]
    sentence = phrases.pattern_sentence("L0H1", pattern, labels, labels)
    assert "from “z” at “z”: 0.40" in sentence
    assert "0.80 on average" in sentence
    assert "only one token" in phrases.pattern_sentence("L0H1", pattern[:1, :1], labels[:1], labels[:1])


def test_the_share_of_the_first_token_leaves_its_own_row_out() -> None:
    pattern = np.array([[1.0, 0.0, 0.0], [0.9, 0.1, 0.0], [0.5, 0.1, 0.4]])
    assert "gets 70% of" in phrases.sink_sentence(pattern)


def test_roles_in_words() -> None:
    assert "none of these roles" in phrases.role_sentence("L0H1", None, "", 0, 0, "")
    sentence = phrases.role_sentence("L0H1", "induction", "Induction", 0.83, 0.5, "mean of A")
    assert sentence == "L0H1 is called “induction”: its score is 0.83 (from 0.5 on; mean of A)."


@pytest.mark.parametrize(
    ("delta", "up_is_good", "colour"),
    [
        ("+0.00", False, "off"),
        ("-0.0%", True, "off"),
        (None, True, "off"),
        ("+0.0100", False, "inverse"),
        ("-1.0%", True, "normal"),
    ],
)
def test_a_change_that_is_written_as_zero_is_neither_good_nor_bad(
    delta: str | None, up_is_good: bool, colour: str
) -> None:
    looks = change_looks(delta, up_is_good=up_is_good)
    assert looks == {"delta_color": colour, "delta_arrow": "off" if colour == "off" else "auto"}
