"""The switchboard: switch heads off and see at once what happens to loss, next token and text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import streamlit as st

from headlens.importance import METHODS
from headlens.ui import afterwards, background, cache, effects, methods, skills, state, writing
from headlens.ui.attention_roles import known_roles
from headlens.ui.compute import Ask, Partial, score_job, scores_now
from headlens.ui.grid import switch_grid
from headlens.ui.head_roles import tooltips
from headlens.ui.prompt import prompt_box
from headlens.ui.sidebar import Chosen, refresh, sidebar
from headlens.ui.toolbar import HOW_TO, layer_tools, toolbar

if TYPE_CHECKING:
    from collections.abc import Mapping

SECTIONS = ("scores", "continuation", "sum", "held_out", "smallest", "skills")
NEED_NO_DATA = ("magnitude", "magnitude-ov", "random")


def show() -> None:
    """Draws the page: the switches with their live figures, and below them what takes longer.

    Both parts are fragments: a switch reruns only the first; the second polls while its work runs. Each remembers for
    which state it was drawn, so that whichever is behind is drawn anew.
    """
    chosen = sidebar("switchboard")
    st.title("Switch heads off")
    if chosen is None:
        st.info("Choose a model and a text in the sidebar to switch its heads.", icon=":material/arrow_back:")
        return
    st.fragment(_board)(chosen)
    polling = background.busy(*SECTIONS)
    st.session_state["hl_polling"] = polling
    st.fragment(run_every=background.poll_seconds() if polling else None)(_behind)(chosen, polling)
    refresh(chosen)
    state.whole_page(False)


def _board(chosen: Chosen) -> None:
    """The switches and everything that answers at once."""
    refresh(chosen)
    topology = chosen.lens.topology
    shown = _shown(chosen)
    roles = known_roles(chosen.lens, chosen.data)
    toolbar(topology, shown.values, shown.title)
    left, right = st.columns([3, 2], gap="large")
    with left:
        switch_grid(
            "grid_switches",
            topology,
            shown.values,
            sem=shown.sem,
            roles=tooltips(roles, topology, "head") if roles is not None else None,
            kind="diverging" if shown.signed else "sequential",
            score_unit=methods.unit_of(shown.method, chosen.metric, chosen.lens.task),
            mode="switch",
        )
        st.caption(HOW_TO)
        layer_tools(topology)
        _score_button(chosen, shown)
    off = state.off_heads(topology)
    with right:
        effects.metrics(chosen, off)
        prompt, _ = prompt_box(chosen.lens) if chosen.lens.tokenizer is not None else ("", None)
        effects.next_token(chosen, prompt, off)
    writing.follow_switches(chosen, prompt, off)
    afterwards.follow_switches(chosen, off)
    skills.follow_switches(chosen, off)
    refresh(chosen)
    now = effects.signature(chosen)
    st.session_state["hl_board_for"] = now
    told = st.session_state.get("hl_polling") or state.is_whole_page()
    if not told and st.session_state.get("hl_behind_for") != now:
        state.rerun()  # the part below is not polling, so it has to be told


def _behind(chosen: Chosen, polling: bool) -> None:
    """What streams in behind the switches."""
    off = state.off_heads(chosen.lens.topology)
    prompt = st.session_state.get("hl_prompt", "")
    background.finished("scores", _ask(chosen).key)
    skills.section(chosen, off)
    writing.section(chosen, prompt, off)
    left, right = st.columns(2, gap="medium")
    with left:
        afterwards.held_out(chosen, off)
    with right:
        afterwards.sum_against_joint(chosen, off)
    afterwards.smallest_change(chosen, prompt)
    now = effects.signature(chosen)
    st.session_state["hl_behind_for"] = now
    behind = polling != background.busy(*SECTIONS) or st.session_state.get("hl_board_for") != now
    if behind and not state.is_whole_page():
        state.rerun()


@dataclass(frozen=True)
class _Shown:
    """Scores that colour the grid: ``values`` and ``sem`` are ``[layer, head]`` by site."""

    values: Mapping[str, np.ndarray]
    sem: Mapping[str, np.ndarray] | None
    method: str
    note: str = ""

    @property
    def signed(self) -> bool:
        return self.method in methods.SIGNED

    @property
    def title(self) -> str:
        return METHODS[self.method].title


def _ask(chosen: Chosen) -> Ask:
    lens, data = chosen.lens, chosen.data
    return Ask(
        lens.name, lens.fingerprint, data.hash, chosen.method, chosen.metric, chosen.ablation, "head", signed=True
    )


def _shown(chosen: Chosen) -> _Shown:
    """The chosen method's scores when they are there, else what there is so far."""
    lens, ask = chosen.lens, _ask(chosen)
    if chosen.method in NEED_NO_DATA:
        return _Shown(scores_now(lens, None, ask).values, None, chosen.method)
    job = cache.jobs().get(ask.key)
    if job is not None and job.status == "done":
        return _Shown(job.result.values, job.result.sem, chosen.method)
    title = METHODS[chosen.method].title
    if job is not None and isinstance(job.partial, Partial) and all(_complete(lens, job.partial.values)):
        note = (
            f"{title}: exact in {job.partial.layers_done} of {job.partial.layers} layers so far, estimated elsewhere."
        )
        return _Shown(job.partial.values, job.partial.sem, chosen.method, note)
    magnitude = scores_now(lens, None, Ask(lens.name, lens.fingerprint, chosen.data.hash, "magnitude", chosen.metric))
    return _Shown(magnitude.values, None, "magnitude", f"Coloured by weight magnitude until “{title}” is measured.")


def _complete(lens: object, values: Mapping[str, np.ndarray]) -> list[bool]:
    topology = lens.topology  # type: ignore[attr-defined]
    return [bool(np.isfinite(values[head.site][head.layer, head.head])) for head in topology.heads()]


def _score_button(chosen: Chosen, shown: _Shown) -> None:
    if not shown.note:
        return
    left, right = st.columns([3, 2], vertical_alignment="center")
    left.caption(shown.note)
    if not background.busy("scores"):
        right.button("Measure the scores now", key="score_now", on_click=_measure_scores, args=(chosen,))


def _measure_scores(chosen: Chosen) -> None:
    """Starts (or joins) the computation that the page Heads shows."""
    job = score_job(chosen.lens, chosen.data, _ask(chosen))
    st.session_state["hl_job_scores"] = job.key
