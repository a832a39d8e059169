"""What follows an answer: whether it was right, why each option is what it is, the full answer and its sources."""

from __future__ import annotations

from typing import Any

import streamlit as st

from headlens.interview.grading import Mark
from headlens.interview.quantities import Live
from headlens.interview.questions import Choice, ChooseAll, Free, Number, Order, Question
from headlens.ui import words
from headlens.ui.interview_forms import LETTERS, order_of
from headlens.ui.interview_kit import Kit, cite_line, live_line


def verdict(mark: Mark) -> None:
    """Right, partly right or wrong, in words and not by colour alone."""
    note = f" {words.plain(mark.note)}" if mark.note else ""
    if not mark.counts:
        st.info(f"Measured.{note}", icon=":material/balance:")
    elif mark.right:
        st.success(f"Right.{note}", icon=":material/check:")
    elif mark.score >= 0.5:
        st.warning(
            f"Partly right ({mark.score:.0%}).{' ' + words.plain(_sentence(mark.note)) if mark.note else ''}",
            icon=":material/contrast:",
        )
    else:
        st.error(f"Not right.{' ' + words.plain(_sentence(mark.note)) if mark.note else ''}", icon=":material/close:")


def _sentence(text: str) -> str:
    return text if text.endswith(".") else f"{text[:1].upper()}{text[1:]}."


def explain(question: Question, seed: int, given: Any, mark: Mark, live: Live | None, kit: Kit) -> None:
    """Everything there is to say about the answer."""
    verdict(mark)
    order = order_of(question, seed)
    if isinstance(question, Choice):
        _options(question, order, frozenset([given]))
    elif isinstance(question, ChooseAll):
        _options(question, order, given)
    elif isinstance(question, Order):
        _ordered(question, given)
    elif isinstance(question, Number):
        assert live is not None
        typed = f"You wrote {words.plain(str(given))}. "
        st.markdown(f"{typed}**{words.plain(live.text)}**: {words.plain(live.sum)}.")
    elif isinstance(question, Free):
        _rubric(question, given)
    st.markdown(words.plain(question.explain))
    live_verdict = live_line(question.claim)
    if live_verdict:
        st.markdown(f":blue-background[{live_verdict}]")
    st.caption(f"Source: {cite_line(kit.bank, question.sources)}")


def _options(question: Choice | ChooseAll, order: list[int], given: frozenset[int]) -> None:
    """Each option in the order in which it stood, with what was chosen and why it is right or wrong."""
    lines = []
    for place, number in enumerate(order):
        option = question.options[number]
        sign = "✓ right" if option.right else "✗ wrong"
        mine = ", your answer" if number in given else ""
        colour = "green" if option.right else "red"
        lines.append(
            f"- **{LETTERS[place]}** :{colour}[{sign}{mine}]: {words.plain(option.text)}  \n{words.plain(option.why)}"
        )
    st.markdown("\n".join(lines))


def _ordered(question: Order, given: tuple[int, ...]) -> None:
    st.markdown(f"The right order, {words.plain(question.first)} to {words.plain(question.last)}:")
    lines = []
    for number, item in enumerate(question.items):
        yours = given.index(number)
        where = "" if yours == number else f" :gray[(you: place {yours + 1})]"
        lines.append(f"{number + 1}. **{words.plain(item.text)}**{where}  \n{words.plain(item.why)}")
    st.markdown("\n".join(lines))


def _rubric(question: Free, given: frozenset[int]) -> None:
    lines = []
    for number, point in enumerate(question.points):
        sign = ":green[✓ said]" if number in given else (":red[✗ missing]" if point.must else ":gray[not said]")
        lines.append(f"- {sign} {words.plain(point.text)}")
    st.markdown("\n".join(lines))
    st.markdown(f"**A good answer.** {words.plain(question.model_answer)}")
