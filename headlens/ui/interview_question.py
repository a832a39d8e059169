"""One question on the page: asked, answered, marked and explained."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import streamlit as st

from headlens.errors import HeadlensError
from headlens.interview.grading import Mark, mark_all, mark_choice, mark_free, mark_number, mark_order
from headlens.interview.progress import Answer, Doubt, Where
from headlens.interview.quantities import Live, live_or_reference
from headlens.interview.questions import KINDS, Choice, ChooseAll, Free, Number, Order, Predict, Question
from headlens.interview.schema import LEVELS, TOPICS
from headlens.interview.shape import GPT2_SMALL
from headlens.ui import words
from headlens.ui.interview_claims import offer
from headlens.ui.interview_feedback import explain
from headlens.ui.interview_forms import picked, points, widgets
from headlens.ui.interview_kit import Kit, now
from headlens.ui.interview_predict import prediction

NOTHING = "Choose an answer first."


@dataclass
class Slot:
    """One asking of one question in the session.

    Attributes:
        seed: of the order of its options, and of the heads of a prediction.
        since: when it was first shown, on the clock of :func:`time.monotonic`.
        given: what was answered, in the question's own numbering.
        mark: how good it was.
        answer: id of the kept answer; empty where it was not kept (a tie that does not count).
        rubric: whether a free answer's key points are shown.
        text, live: the question and its number as they were when it was answered; the model may be another one since.
        error: what is wrong with what was typed.
        doubted: whether the learner said that it was guessed.
    """

    seed: int
    since: float = field(default_factory=time.monotonic)
    given: Any = None
    mark: Mark | None = None
    answer: str = ""
    rubric: bool = False
    text: str = ""
    live: Live | None = None
    error: str = ""
    doubted: bool = False


def slot_of(name: str, seed: int) -> Slot:
    """The slot called ``name`` in the session; it outlives switching pages."""
    slots: dict[str, Slot] = st.session_state.setdefault("hl_iv_slots", {})
    return slots.setdefault(name, Slot(seed))


def forget(name: str) -> None:
    """The question may be asked again in this slot."""
    st.session_state.get("hl_iv_slots", {}).pop(name, None)


def text_of(question: Question, kit: Kit, live: Live | None = None) -> str:
    """The question as it is asked, with the model's numbers where it names any."""
    if not isinstance(question, (Number, Predict)):
        return question.ask
    shape = live.shape if live is not None else kit.shape or GPT2_SMALL
    return question.ask.format_map(dict(shape.facts()))


def live_of(question: Question, kit: Kit) -> Live | None:
    """The number that a number question asks for: of the opened model, else of GPT-2 small."""
    if not isinstance(question, Number):
        return None
    return live_or_reference(question.quantity, kit.shape, question.options)


def shown(question: Question, slot: Slot, kit: Kit) -> tuple[str, Live | None]:
    """The question and its number: as they were when it was answered, else of the model that is open now."""
    if slot.mark is not None:
        return slot.text, slot.live
    live = live_of(question, kit)
    return text_of(question, kit, live), live


def draw(
    question: Question,
    name: str,
    kit: Kit,
    *,
    where: Where,
    seed: int,
    run: str | None = None,
    heading: str = "",
    silent: bool = False,
) -> Mark | None:
    """Draws one question and, once it is answered, its explanation.

    Args:
        question: what is asked.
        name: of the slot; another name is another asking.
        kit: bank, log and model.
        where: part of the page, for the log.
        seed: order of options and heads.
        run: the mock interview that it belongs to.
        heading: in front of the question's own line.
        silent: gives no explanation (mock interview).

    Returns:
        The mark, or None while it is not answered.
    """
    slot = slot_of(name, seed)
    text, live = shown(question, slot, kit)
    kinds = f"{TOPICS[question.topic]} · {LEVELS[question.level]} · {KINDS[question.kind]}"
    st.caption(f"{heading} · {kinds}" if heading else kinds)
    st.subheader(words.plain(text), anchor=False)
    if slot.mark is None and live is not None and kit.shape is not None and live.shape.name != kit.shape.name:
        st.caption(words.plain(f"{kit.shape.name} has no such number, so this one is about {live.shape.name}."))

    def record(given: Any, mark: Mark) -> None:
        slot.given, slot.mark, slot.error = given, mark, ""
        slot.text, slot.live = text, live
        if mark.counts or run is not None:  # a mock interview has to go on
            answer = _answer(question, slot, mark, where, run, kit)
            kit.keep(answer)
            slot.answer = answer.id

    if isinstance(question, Predict):
        prediction(question, name, slot.seed, kit, slot.mark is not None, record)
    elif slot.mark is None:
        _form(question, name, slot, live, record)
    if slot.mark is not None and not silent:
        explain(question, slot.seed, slot.given, slot.mark, live, kit)
        offer(kit, [question.claim], name)
        _guessed(name, slot, kit)
    return slot.mark


def _form(question: Question, name: str, slot: Slot, live: Live | None, record: Callable[[Any, Mark], None]) -> None:
    rubric = isinstance(question, Free) and slot.rubric
    with st.form(f"_iv_{name}_form{'_points' if rubric else ''}", border=False):
        if isinstance(question, Free) and rubric:
            points(question, name)
        else:
            widgets(question, name, slot.seed)
        label = "Score it" if rubric else ("Show the key points" if isinstance(question, Free) else "Answer")
        st.form_submit_button(
            label, type="primary", on_click=_submit, args=(question, name, slot, live, record), key=f"_iv_{name}_submit"
        )
    if slot.error:
        st.warning(words.plain(slot.error), icon=":material/edit:")


def _submit(question: Question, name: str, slot: Slot, live: Live | None, record: Callable[[Any, Mark], None]) -> None:
    if slot.mark is not None:  # a second click on a form that the browser still shows
        return
    if isinstance(question, Free) and not slot.rubric:
        slot.rubric = True
        return
    given = picked(question, name, slot.seed)
    if given is None:
        slot.error = "Give every item a place." if isinstance(question, Order) else NOTHING
        return
    try:
        mark = _mark(question, given, live)
    except HeadlensError as error:
        slot.error = str(error)
        return
    record(given, mark)


def _mark(question: Question, given: Any, live: Live | None) -> Mark:
    if isinstance(question, Choice):
        return mark_choice(question, given)
    if isinstance(question, ChooseAll):
        return mark_all(question, given)
    if isinstance(question, Order):
        return mark_order(question, given)
    if isinstance(question, Number):
        assert live is not None
        return mark_number(question, given, live)
    assert isinstance(question, Free)
    return mark_free(question, given)


def _answer(question: Question, slot: Slot, mark: Mark, where: Where, run: str | None, kit: Kit) -> Answer:
    seconds = min(time.monotonic() - slot.since, 86_400.0)
    model = kit.lens.name[:500] if kit.lens is not None and isinstance(question, (Number, Predict)) else None
    if slot.live is not None:  # GPT-2 small where the model has no such number
        model = slot.live.shape.name[:500]
    return Answer(
        question=question.id,
        score=mark.score,
        right=mark.right,
        where=where,
        seconds=round(seconds, 1),
        run=run,
        model=model,
        at=now(),
    )


def _guessed(name: str, slot: Slot, kit: Kit) -> None:
    """A lucky guess is not knowledge: it may be taken back."""
    if slot.mark is None or not slot.mark.right or not slot.answer:
        return
    if slot.doubted:
        st.caption("Noted as a guess; it comes back soon.")
        return

    def take_back() -> None:
        slot.doubted = True
        kit.keep(Doubt(answer=slot.answer, at=now()))

    st.button("I guessed: ask me again soon", key=f"_iv_{name}_guess", type="tertiary", on_click=take_back)
