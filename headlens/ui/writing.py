"""The text that the model writes on, with and without the heads that are off."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import streamlit as st

from headlens.ui import background, effects, phrases, state, words
from headlens.ui.prompt import read_prompt, text_of

if TYPE_CHECKING:
    from collections.abc import Hashable

    from headlens.generation import Continuation, Continuations
    from headlens.heads import HeadSet
    from headlens.ui.choices import Chosen
    from headlens.ui.jobs import Job

NEW_TOKENS = 24
WRITERS = ("causal-lm", "seq2seq")


def follow_switches(chosen: Chosen, prompt: str, off: HeadSet) -> None:
    """Begins to write when something is off, unless the user turned that off; call in the fragment of the switches."""
    if chosen.lens.task in WRITERS and len(off) and prompt.strip() and state.remember("follow", True):
        background.follow("continuation", _key(chosen, prompt, off), "Writing", _work(chosen, prompt, off))


def section(chosen: Chosen, prompt: str, off: HeadSet) -> None:
    """Both texts side by side, from the first difference on in colour."""
    if chosen.lens.task not in WRITERS:
        return
    with st.container(border=True):
        st.subheader("How it writes on", divider=False)
        _controls(chosen, prompt, off)
        job = background.finished("continuation", _key(chosen, prompt, off))
        if job is None:
            return
        found: Continuations = job.result
        left, right = st.columns(2)
        _text(left, "All heads on", found.before, found.first_difference)
        _text(right, f"{len(off)} heads off", found.after, found.first_difference)
        note = effects.ablation_note(chosen) if len(off) else ""
        st.caption(words.plain(f"{phrases.continuation_sentence(found)} {note}"))


def _controls(chosen: Chosen, prompt: str, off: HeadSet) -> None:
    with st.container(horizontal=True, vertical_alignment="bottom"):
        state.fill("_temperature", state.remember("temperature", 0.0))
        st.number_input(
            "Temperature",
            0.0,
            2.0,
            step=0.1,
            key="_temperature",
            width=130,
            help="0 takes the most probable token; above 0 samples, with the same seed and noise for both texts.",
            on_change=lambda: st.session_state.update(hl_temperature=st.session_state["_temperature"]),
        )
        state.fill("_write_seed", state.remember("write_seed", 0))
        st.number_input(
            "Seed",
            0,
            9999,
            key="_write_seed",
            width=110,
            disabled=not st.session_state["hl_temperature"],
            on_change=lambda: st.session_state.update(hl_write_seed=st.session_state["_write_seed"]),
        )
        st.button(
            "Write on",
            key="write_on",
            type="primary",
            disabled=not prompt.strip(),
            on_click=lambda: background.start(
                "continuation", _key(chosen, prompt, off), "Writing", _work(chosen, prompt, off)
            ),
        )
        state.fill("_follow", state.remember("follow", True))
        st.toggle(
            "after every switch",
            key="_follow",
            on_change=lambda: st.session_state.update(hl_follow=st.session_state["_follow"]),
        )


def _settings() -> tuple[float, int]:
    return float(state.remember("temperature", 0.0)), int(state.remember("write_seed", 0))


def _key(chosen: Chosen, prompt: str, off: HeadSet) -> Hashable:
    kind = "mean" if chosen.ablation == "mean" else "zero"
    heads = chosen.lens.topology.format(off)
    return ("continuation", chosen.lens.fingerprint, prompt, heads, kind, *_settings())


def _work(chosen: Chosen, prompt: str, off: HeadSet) -> Any:
    from headlens.generation import continuations

    temperature, seed = _settings()

    def work(job: Job) -> Continuations:
        room = NEW_TOKENS if chosen.lens.task == "causal-lm" else 0
        reading = read_prompt(chosen.lens, prompt, keep="end", room=room)
        return continuations(
            chosen.lens,
            text_of(chosen.lens, reading.ids) if reading.note else prompt,
            off,
            max_new_tokens=NEW_TOKENS,
            seed=seed,
            temperature=temperature,
            means=effects.means_for(chosen) if len(off) else None,
            on_progress=job.progress,
        )

    return work


def _text(column: Any, title: str, text: Continuation, difference: int | None) -> None:
    pieces = [step.label.surface or (step.label.text if step.label.is_special else "") for step in text.steps]
    split = len(pieces) if difference is None else difference
    same, other = "".join(pieces[:split]), "".join(pieces[split:])
    body = words.plain(same) + (f":orange-background[{words.plain(other)}]" if other.strip() else "")
    column.caption(title)
    column.markdown(body or "*(nothing)*")
