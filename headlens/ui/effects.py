"""What the switches do at once: figures on the live set, and the next token of the prompt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypedDict

import streamlit as st

from headlens.charts.tokens import before_after
from headlens.errors import HeadlensError
from headlens.ui import cache, phrases, state, words
from headlens.ui.prompt import Reading, read_prompt
from headlens.ui.turns import now

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

    from headlens.evaluate import Evaluation
    from headlens.heads import HeadSet
    from headlens.lens import Lens
    from headlens.live import LiveEvaluator
    from headlens.next_tokens import NextTokens
    from headlens.run import LayerKey
    from headlens.ui.choices import Chosen

CHOICES = 6
"""Length of each of the two lists of next tokens."""


def live_of(lens: Lens) -> LiveEvaluator:
    """The model's live set."""
    return cache.live_evaluator(lens.name, lens, lens.fingerprint)


def evaluate_live(chosen: Chosen, off: HeadSet) -> Evaluation:
    """The live set with ``off`` off, for background work; from memory if it has been asked for before.

    Raises:
        HeadlensError: there is no live set for this task, or the ablation needs more examples.
    """
    lens = chosen.lens
    return cache.live_result(lens.name, lens, lens.fingerprint, lens.topology.format(off), chosen.ablation)


def live_now(chosen: Chosen, off: HeadSet) -> Evaluation:
    """As :func:`evaluate_live`, for a page that waits for it: in turn with other sessions, ahead of long work."""
    of = (chosen.lens.name, chosen.lens, chosen.lens.fingerprint, chosen.lens.topology.format(off), chosen.ablation)
    return now(cache.live_key(*of[2:]), lambda: cache.live_work(*of))


def metrics(chosen: Chosen, off: HeadSet) -> None:
    """Loss, perplexity, accuracy and drift on the live set, before and after; one sentence below."""
    try:
        found = live_now(chosen, off)
    except HeadlensError as error:
        st.warning(words.plain(str(error)), icon=":material/info:")
        return
    shown = phrases.figures(found, switched=len(off) > 0)
    for start in range(0, len(shown), 2):
        for column, figure in zip(st.columns(2), shown[start : start + 2], strict=False):
            looks = change_looks(figure.delta, up_is_good=figure.up_is_good)
            column.metric(figure.title, figure.value, figure.delta, help=figure.help, **looks)
            column.caption(figure.note)
    sentence = words.off_sentence(found, len(off), len(chosen.lens.topology.heads()))
    st.caption(f"{sentence} Live set: the start of the held-out half, at most 256 tokens; ± is one standard error.")


class Looks(TypedDict):
    """How a change beside a figure is drawn; see ``st.metric``."""

    delta_color: Literal["normal", "inverse", "off"]
    delta_arrow: Literal["auto", "off"]


def change_looks(delta: str | None, *, up_is_good: bool) -> Looks:
    """Green or red with an arrow, but grey and without one where the written change is zero (``+0.00``)."""
    if delta is None or not any(digit in delta for digit in "123456789"):
        return {"delta_color": "off", "delta_arrow": "off"}
    return {"delta_color": "normal" if up_is_good else "inverse", "delta_arrow": "auto"}


def means_for(chosen: Chosen) -> Mapping[LayerKey, Tensor] | None:
    """What heads write in place of their output while text is written: their means on the live set, or None (zero)."""
    return live_of(chosen.lens).means() if chosen.ablation == "mean" else None


def ablation_note(chosen: Chosen) -> str:
    """What heads that are off write in prompts, where that is not what the sidebar says; else ""."""
    if chosen.ablation == "resample":
        return "A prompt has no other example to draw from, so here heads that are off write zero."
    if chosen.ablation == "mean":
        return "Heads that are off write their mean over the live set."
    return ""


def question(lens: Lens, prompt: str) -> Reading:
    """The prompt as a question for the next token: of a long one the end is kept (masked models: the start)."""
    return read_prompt(lens, prompt, keep="start" if lens.task == "masked-lm" else "end")


def next_token(chosen: Chosen, prompt: str, off: HeadSet) -> None:
    """The most probable next tokens (or masked words, or classes) before and after."""
    lens = chosen.lens
    if lens.task in ("embedding", "image-classification"):
        return
    try:
        reading = question(lens, prompt)
        found = next_tokens_of(chosen, reading, off)
    except HeadlensError as error:
        st.info(words.plain(str(error)), icon=":material/edit:")
        return
    if reading.note:
        st.caption(reading.note)
    dark = st.context.theme.type == "dark"
    sentence = words.next_sentence(found)
    after = [choice.after for choice in found.choices] if len(off) else None
    title = {"next": "Next token", "mask": "Hidden word", "class": "Class"}[found.kind]
    labels = [choice.label.text for choice in found.choices]
    before = [choice.before for choice in found.choices]
    figure = before_after(labels, before, after, title=title, dark=dark)
    st.markdown(words.plain(sentence))
    st.plotly_chart(figure, width="stretch", key="fig_next", alt=sentence, config={"displayModeBar": False})
    if len(off) and ablation_note(chosen):
        st.caption(ablation_note(chosen))


def next_tokens_of(chosen: Chosen, reading: Reading, off: HeadSet) -> NextTokens:
    """Top answers before and after; from memory if they have been asked for before."""
    lens = chosen.lens
    ids = (tuple(reading.ids), tuple(reading.target or ()))
    kind = "mean" if chosen.ablation == "mean" else "zero"

    def work() -> NextTokens:
        from headlens.next_tokens import next_tokens

        return next_tokens(lens, reading.inputs(lens), off, k=CHOICES, means=means_for(chosen))

    return now(("next", lens.fingerprint, ids, lens.topology.format(off), kind), work)


def signature(chosen: Chosen) -> tuple[str, ...]:
    """What the sections depend on: when it changes, they are drawn anew."""
    prompt = st.session_state.get("hl_prompt", "")
    return (chosen.lens.fingerprint, state.get("off"), chosen.ablation, chosen.data.hash, prompt)
