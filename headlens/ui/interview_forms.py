"""The widgets with which each kind of question is answered. What was picked is read by :func:`picked` on submitting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import streamlit as st

from headlens.interview.predict import Trial
from headlens.interview.questions import Choice, ChooseAll, Free, Number, Order, Question
from headlens.ui import words

LETTERS = "ABCDEFGH"


def shuffled(count: int, seed: int) -> list[int]:
    """The order in which options stand: so that the place gives nothing away."""
    return np.random.default_rng(seed).permutation(count).tolist()


def order_of(question: Question, seed: int) -> list[int]:
    """The order in which a question's options or items stand on the page."""
    count = len(question.items) if isinstance(question, Order) else len(getattr(question, "options", ()))
    return shuffled(count, seed)


def lettered(texts: Sequence[str]) -> list[str]:
    """Options with letters in front, as markdown shows them literally."""
    return [f"**{LETTERS[place]}** {words.plain(text)}" for place, text in enumerate(texts)]


def widgets(question: Question, slot: str, seed: int, trial: Trial | None = None) -> None:
    """Draws the widgets of one question; inside a form."""
    order = order_of(question, seed)
    if isinstance(question, Choice):
        labels = lettered([question.options[number].text for number in order])
        st.radio("Your answer", range(len(order)), index=None, key=f"_iv_{slot}_pick", format_func=labels.__getitem__)
    elif isinstance(question, ChooseAll):
        st.caption("Tick all that apply.")
        for place, number in enumerate(order):
            label = f"{LETTERS[place]}: {question.options[number].text}"
            st.checkbox(words.label(label), key=f"_iv_{slot}_tick_{place}")
    elif isinstance(question, Order):
        _places(question, slot, order)
    elif isinstance(question, Number):
        st.text_input("Your number", key=f"_iv_{slot}_number", placeholder="for example 1,024 or 12.5", max_chars=40)
    elif isinstance(question, Free):
        st.text_area(
            "Your answer (or say it aloud and leave this empty)",
            key=f"_iv_{slot}_text",
            max_chars=4000,
            height=140,
            help="It stays in this tab and is not kept.",
        )
    elif trial is not None:
        labels = lettered(trial.options)
        st.radio(
            "Your prediction", range(len(labels)), index=None, key=f"_iv_{slot}_pick", format_func=labels.__getitem__
        )


def _places(question: Order, slot: str, order: list[int]) -> None:
    items = [question.items[number].text for number in order]
    for place in range(len(items)):
        end = {0: f" ({question.first})", len(items) - 1: f" ({question.last})"}.get(place, "")
        st.selectbox(
            words.label(f"Place {place + 1}{end}"),
            range(len(items)),
            index=None,
            key=f"_iv_{slot}_place_{place}",
            format_func=items.__getitem__,
            placeholder="Choose an item",
        )


def points(question: Free, slot: str) -> None:
    """The rubric of a free answer, to be ticked; inside a form."""
    st.markdown("**Which of these were in your answer?** Be strict; it is your own drill.")
    for number, point in enumerate(question.points):
        must = " (not to be left out)" if point.must else ""
        st.checkbox(words.label(f"{point.text}{must}"), key=f"_iv_{slot}_point_{number}")


def picked(question: Question, slot: str, seed: int) -> Any:
    """What was answered, in the question's own numbering; None where nothing (or not everything) was chosen."""
    order = order_of(question, seed)
    value = st.session_state.get
    if isinstance(question, Choice):
        place = value(f"_iv_{slot}_pick")
        return None if place is None else order[place]
    if isinstance(question, ChooseAll):
        found = frozenset(order[place] for place in range(len(order)) if value(f"_iv_{slot}_tick_{place}"))
        return found or None
    if isinstance(question, Order):
        places = [value(f"_iv_{slot}_place_{place}") for place in range(len(order))]
        chosen = [place for place in places if place is not None]
        return tuple(order[place] for place in chosen) if len(chosen) == len(places) else None
    if isinstance(question, Number):
        return (value(f"_iv_{slot}_number") or "").strip() or None
    if isinstance(question, Free):
        return frozenset(n for n in range(len(question.points)) if value(f"_iv_{slot}_point_{n}"))
    return value(f"_iv_{slot}_pick")
