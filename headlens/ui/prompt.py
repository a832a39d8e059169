"""The user's prompt, shared by the pages of one session; never put into the URL."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from headlens.errors import DataError
from headlens.ui import state

if TYPE_CHECKING:
    from torch import Tensor

    from headlens.lens import Lens

MAX_CHARACTERS = 50_000
EXAMPLES = {
    "Repeat a name": "When Mary and John went to the store, John gave a drink to",
    "Repeat a list": "cherry, lamp, river, violin, stone. Once more: cherry, lamp, river,",
    "Close a quote": 'She looked at the sea and said, "I have never been so happy',
    "A capital": "The capital of France is Paris, and the capital of Italy is",
    "Agreement": "The keys to the old cabinet near the window",
}
"""Short prompts whose next word needs a skill, to start with."""
TARGET = "Das ist ein kleines Haus."


def prompt_box(lens: Lens, *, need_target: bool = False) -> tuple[str, str | None]:
    """Draws the prompt (and, for encoder-decoder models, target) fields; returns their texts."""
    state.remember("prompt", _first_prompt(lens))
    if lens.task == "causal-lm":
        st.pills(
            "Try one",
            list(EXAMPLES),
            key="_prompt_example",
            on_change=_take_example,
            label_visibility="collapsed",
        )
    state.fill("_prompt", st.session_state["hl_prompt"])
    st.text_area(
        "Source text" if lens.task == "seq2seq" else "Prompt",
        key="_prompt",
        height=90,
        max_chars=MAX_CHARACTERS,
        on_change=lambda: st.session_state.update(hl_prompt=st.session_state["_prompt"] or ""),
        help=_help(lens),
    )
    if not (need_target and lens.task == "seq2seq"):
        return st.session_state["hl_prompt"], None
    state.remember("target", TARGET)
    state.fill("_target", st.session_state["hl_target"])
    st.text_input(
        "Target text (what the decoder writes)",
        key="_target",
        max_chars=MAX_CHARACTERS,
        on_change=lambda: st.session_state.update(hl_target=st.session_state["_target"] or ""),
    )
    return st.session_state["hl_prompt"], st.session_state["hl_target"]


def prompt_inputs(lens: Lens, prompt: str, target: str | None = None) -> dict[str, Tensor]:
    """Model inputs of the prompt; raises DataError with a line for the page."""
    from headlens.attention import prompt_inputs as core_inputs

    if len(prompt) > MAX_CHARACTERS:
        raise DataError(f"the prompt has {len(prompt)} characters; at most {MAX_CHARACTERS} are read")
    return core_inputs(lens, prompt, target)


def question_inputs(lens: Lens, prompt: str) -> dict[str, Tensor]:
    """Inputs that ask for the next token; an encoder-decoder model is asked for the first token of its target."""
    inputs = prompt_inputs(lens, prompt, "x" if lens.task == "seq2seq" else None)
    return {name: value for name, value in inputs.items() if not name.startswith("decoder_")}


def _first_prompt(lens: Lens) -> str:
    if lens.task == "masked-lm":
        mask = getattr(lens.tokenizer, "mask_token", None) or "[MASK]"
        return f"The capital of France is {mask}."
    return EXAMPLES["Repeat a name"]


def _help(lens: Lens) -> str | None:
    if lens.task == "masked-lm":
        return f"Write {getattr(lens.tokenizer, 'mask_token', '[MASK]')} where the model is to guess a word."
    return None


def _take_example() -> None:
    chosen = st.session_state.get("_prompt_example")
    if chosen in EXAMPLES:
        st.session_state["hl_prompt"] = EXAMPLES[chosen]
