"""The user's prompt, shared by the pages of one session; never put into the URL."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import streamlit as st

from headlens.errors import DataError
from headlens.server import limits
from headlens.ui import state
from headlens.ui.starts import starts_of

if TYPE_CHECKING:
    from torch import Tensor

    from headlens.lens import Lens


@dataclass(frozen=True)
class Reading:
    """A prompt as the model gets it.

    Attributes:
        ids: token ids, special ones included.
        target: decoder input ids of encoder-decoder models, else None.
        note: what was left out, in a sentence; "" where nothing was.
    """

    ids: list[int]
    target: list[int] | None
    note: str

    def inputs(self, lens: Lens) -> dict[str, Tensor]:
        """Model inputs, each ``[1, tokens]``."""
        import torch

        found = {
            "input_ids": torch.tensor([self.ids]),
            "attention_mask": torch.ones(1, len(self.ids), dtype=torch.long),
        }
        if self.target is not None:
            target = torch.tensor([self.target])
            found |= {"decoder_input_ids": target, "decoder_attention_mask": torch.ones_like(target)}
        return {name: value.to(lens.device) for name, value in found.items()}


def prompt_box(lens: Lens, *, need_target: bool = False) -> tuple[str, str | None]:
    """Draws the prompt (and, for encoder-decoder models, target) fields; returns their texts."""
    _start(lens)
    st.text_area(
        "Source text" if lens.task == "seq2seq" else "Prompt",
        value=state.fill_text("_prompt", st.session_state["hl_prompt"]),
        key="_prompt",
        height=90,
        max_chars=limits.current().prompt_characters,
        on_change=lambda: st.session_state.update(hl_prompt=st.session_state["_prompt"] or ""),
        help=_help(lens),
    )
    examples = starts_of(lens).examples
    if lens.task == "causal-lm" and examples:
        key = f"_prompt_example_{next(iter(examples))}"  # other examples are another widget
        st.pills("Try one", list(examples), key=key, wrap=True, on_change=_take_example, args=(key, examples))
    if not (need_target and lens.task == "seq2seq"):
        return st.session_state["hl_prompt"], None
    st.text_input(
        "Target text (what the decoder writes)",
        value=state.fill_text("_target", st.session_state["hl_target"]),
        key="_target",
        max_chars=limits.current().prompt_characters,
        on_change=lambda: st.session_state.update(hl_target=st.session_state["_target"] or ""),
    )
    return st.session_state["hl_prompt"], st.session_state["hl_target"]


def read_prompt(
    lens: Lens,
    prompt: str,
    target: str | None = None,
    *,
    keep: Literal["start", "end"] = "start",
    room: int = 0,
) -> Reading:
    """Tokenises the prompt and cuts it to what fits.

    Args:
        lens: the model.
        prompt: the text.
        target: for encoder-decoder models; None asks for the first token of the target.
        keep: which end of a long prompt stays.
        room: positions that are kept free for tokens to be written.

    Raises:
        DataError: nothing to read, or a model that reads no text; a line for the page.
        LimitError: longer than this server allows.
    """
    if lens.tokenizer is None or not lens.accepts("input_ids"):
        raise DataError(f"{lens.name} ({lens.task}) reads no text")
    allowed = limits.current()
    for what, text in (("the prompt", prompt), ("the target", target or "")):
        allowed.check_size(what, len(text), allowed.prompt_characters, "characters")
    limit = max(2, min(allowed.prompt_tokens, lens.max_positions or allowed.prompt_tokens) - room)
    ids, note = _cut(lens, _tokens(lens, "prompt", text=prompt), limit, keep, "prompt")
    if lens.task != "seq2seq":
        return Reading(ids, None, note)
    import torch

    if target is None:
        start = lens.shift_right(torch.zeros(1, dtype=torch.long))
        return Reading(ids, start.tolist(), note)
    labels, more = _cut(lens, _tokens(lens, "target", text_target=target), limit, "start", "target")
    return Reading(
        ids, lens.shift_right(torch.tensor(labels)).tolist(), " ".join(part for part in (note, more) if part)
    )


def _tokens(lens: Lens, what: str, **texts: str) -> list[int]:
    from headlens.data.encode import TOKENIZER_LOCK

    if not next(iter(texts.values())).strip():
        raise DataError(f"the {what} is empty; write some text")
    tokenizer: Any = lens.tokenizer
    with TOKENIZER_LOCK:
        ids: list[int] = tokenizer(**texts, verbose=False)["input_ids"]
    if not ids:
        raise DataError(f"the {what} has no tokens: the tokenizer keeps nothing of it")
    if max(ids) >= lens.vocabulary:
        raise DataError(f"the {what} has the token id {max(ids)}, outside the model's vocabulary; wrong tokenizer?")
    return ids


def _cut(lens: Lens, ids: list[int], limit: int, keep: str, what: str) -> tuple[list[int], str]:
    """At most ``limit`` ids; special tokens at both ends stay."""
    if len(ids) <= limit:
        return ids, ""
    special = set(getattr(lens.tokenizer, "all_special_ids", []))
    front, back = int(ids[0] in special), int(ids[-1] in special)
    body, size = ids[front : len(ids) - back], max(1, limit - front - back)
    body = body[:size] if keep == "start" else body[-size:]
    which = "first" if keep == "start" else "last"
    note = f"The {what} has {len(ids):,} tokens; the {which} {size:,} are used, since no more fit here."
    return [*ids[:front], *body, *ids[len(ids) - back :]], note


def text_of(lens: Lens, ids: list[int]) -> str:
    """The text of token ids, without special tokens."""
    from headlens.next_tokens import token_labels

    return "".join(label.surface for label in token_labels(lens, ids))


def _start(lens: Lens) -> None:
    """A first prompt and target that suit the model; what the user wrote stays."""
    for name, first in (("prompt", _first_prompt(lens)), ("target", starts_of(lens).target)):
        kept, before = f"hl_{name}", st.session_state.get(f"hl_first_{name}")
        if st.session_state.get(kept, before) == before:
            st.session_state[kept] = st.session_state[f"hl_first_{name}"] = first


def _first_prompt(lens: Lens) -> str:
    starts = starts_of(lens)
    if lens.task == "masked-lm":
        return starts.masked.replace("[MASK]", str(getattr(lens.tokenizer, "mask_token", None) or "[MASK]"))
    if lens.task == "seq2seq":
        return starts.source
    return next(iter(starts.examples.values()), "")


def _help(lens: Lens) -> str | None:
    if lens.task == "masked-lm":
        return f"Write {getattr(lens.tokenizer, 'mask_token', '[MASK]')} where the model is to guess a word."
    return None


def _take_example(key: str, examples: Mapping[str, str]) -> None:
    chosen = st.session_state.get(key)
    if chosen is not None and chosen in examples:
        st.session_state["hl_prompt"] = examples[chosen]
