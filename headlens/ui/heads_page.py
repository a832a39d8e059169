"""The first page: the map of heads, coloured by how much each one matters, and its switches."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import streamlit as st

from headlens.charts.scores import by_layer, distribution
from headlens.errors import HeadlensError
from headlens.ui import background, cache, effects, methods, role_fates, state, words
from headlens.ui.agree import agreement_section
from headlens.ui.card import card
from headlens.ui.choices import Chosen
from headlens.ui.compute import Ask, score_job
from headlens.ui.grid import switch_grid
from headlens.ui.head_roles import found_roles, roles_job, tooltips
from headlens.ui.role_marks import marks, marks_sentence
from headlens.ui.shown import Shown, needs_job, shown_now
from headlens.ui.sidebar import refresh, sidebar

if TYPE_CHECKING:
    from headlens.ui.jobs import Job

FIGURES_EVERY = 4
"""The figures below are drawn anew so many times less often than the map."""
GRID_HEIGHT = 560
_STYLE = """<style>
.hl-scores { border-collapse: collapse; font-size: 0.82rem; width: 100%; font-variant-numeric: tabular-nums; }
.hl-scores :is(th, td) { padding: 0.2rem 0.5rem 0.2rem 0; text-align: left; font-weight: 400; vertical-align: top; }
.hl-scores :is(td, thead th) { white-space: nowrap; }
.hl-scores thead th { opacity: 0.7; }
.hl-scores tbody tr { border-top: 1px solid color-mix(in srgb, currentColor 16%, transparent); }
.hl-scores .hl-mine :is(th, td) { font-weight: 650; }
.hl-picture { image-rendering: pixelated; max-width: 100%; height: auto; border-radius: 3px; }
</style>"""

COLOUR = {
    "score": "How much each head matters, by the chosen score.",
    "role": "What each head does: a letter and a colour for the role that suits it best.",
}
DIRECTION = {
    "signed": "Signed: blue heads help (the loss rises without them), orange ones harm. The least helpful ranks last.",
    "absolute": "Absolute: how much a head matters in either direction. The least noticed ranks last.",
}
WITHIN = {
    "all heads": "As measured, so layers can be compared.",
    "its layer": "Each layer is divided by its l2 norm (Molchanov et al.): what stands out within its own layer.",
}


def show() -> None:
    """Draws the page."""
    chosen = sidebar("heads")
    st.html(_STYLE)
    st.title("Which heads matter?")
    if chosen is None:
        st.info("Choose a model and a text in the sidebar to see its heads.", icon=":material/arrow_back:")
        return
    st.caption(f"{words.plain(chosen.lens.title)} · measured on {words.plain(chosen.data.name)}, {_amount(chosen)}")
    ask = _ask(chosen)
    try:
        job = score_job(chosen.lens, chosen.data, ask, implied=True) if needs_job(ask.method) else None
    except HeadlensError as error:
        st.error(str(error), icon=":material/error:")
        return
    live = bool(_at_work(chosen, job))
    pause = background.poll_seconds()
    background.too_often("map", pause)
    st.fragment(run_every=pause if live else None)(_map)(chosen, job, live)
    st.fragment(run_every=pause * FIGURES_EVERY if live else None)(_figures)(chosen, job)
    agreement_section(chosen, ask)
    refresh(chosen)


def _amount(chosen: Chosen) -> str:
    count, tokens = len(chosen.data), chosen.data.tokens
    return f"{count} examples" + (f", {tokens} predictions" if tokens else "")


def _ask(chosen: Chosen) -> Ask:
    return Ask(
        chosen.lens.name,
        chosen.lens.fingerprint,
        chosen.data.hash,
        chosen.method,
        chosen.metric,
        chosen.ablation,
        chosen.unit,  # type: ignore[arg-type]
        signed=state.remember("direction", "signed") == "signed",
        normalize="layer" if state.remember("within", "all heads") == "its layer" else "none",
    )


def _at_work(chosen: Chosen, job: Job | None) -> list[Job]:
    """What this page waits for; the roles begin when the map has its first colours from the text."""
    viewer = state.viewer()
    waiting = [] if job is None else [job]
    waiting.append(cache.live_job(chosen.lens, viewer))
    if job is None or job.partial is not None or not job.running:
        waiting.append(_roles(chosen))
    for each in waiting:
        each.look(viewer)
    return [each for each in waiting if each.running]


def _map(chosen: Chosen, job: Job | None, live: bool) -> None:
    """Progress, grid, numbers and card; runs by itself on every toggle and, while work goes on, twice a second."""
    if live and (not _at_work(chosen, job) or background.too_often("map")):
        state.rerun()  # one last full run, then no more polling
    if st.session_state.pop("hl_redraw", False):
        state.rerun()  # the figures below show the same scores
    ask = _ask(chosen)
    try:
        shown = shown_now(chosen, ask, job)
    except HeadlensError as error:
        st.warning(str(error).removeprefix("--normalize layer: "), icon=":material/warning:")
        shown = shown_now(chosen, replace(ask, normalize="none"), job)
    _progress(job)
    st.markdown(shown.sentence)
    if shown.warning:
        st.warning(f"{shown.warning} So no ranks are shown.", icon=":material/warning:")
    roles = _roles(chosen) if _ready(job) else None
    found, topology = found_roles(roles), chosen.lens.topology
    by_role = _by_role()
    if by_role:
        st.markdown(marks_sentence(found.scores) if found else "What the heads do is being read from where they look …")
    left, right = st.columns([11, 10], gap="medium")
    with left:
        view = switch_grid(
            "grid_map",
            topology,
            shown.values,
            sem=shown.sem,
            roles=tooltips(found, topology, ask.unit) if found else None,
            unit=ask.unit,
            kind=shown.kind,
            score_unit=shown.unit,
            height=GRID_HEIGHT,
            ranked=shown.ranked,
            marks=marks(found.scores, topology, ask.unit) if found and by_role else None,
        )
        if shown.final is not None and not shown.warning:
            st.caption(shown.final.stability())
    with right:
        _effect(chosen)
        card(chosen, ask, shown, view.active, roles)
    _choices(ask)
    refresh(chosen)


def _by_role() -> bool:
    """Whether colours say what heads do."""
    return state.remember("colour", "score") == "role"


def _roles(chosen: Chosen) -> Job:
    """The job that finds roles; those that need long texts only where the map is coloured by them."""
    return roles_job(chosen.lens, chosen.data, state.viewer(), costly=_by_role())


def _ready(job: Job | None) -> bool:
    return job is None or job.partial is not None or not job.running


def _progress(job: Job | None) -> None:
    if job is None or job.status == "done":
        return
    if background.left_behind(job, "scores"):
        return
    if job.status == "failed":
        st.error(job.error, icon=":material/error:")
        if job.refused and st.button("Try again", key="again"):
            state.rerun()
        return
    left, right = st.columns([4, 1], vertical_alignment="center")
    if job.status == "cancelled":
        left.info("Stopped. What was measured is kept; starting again goes on from there.", icon=":material/pause:")
        if right.button("Go on", key="resume", type="primary"):
            cache.jobs().drop(job.key)
            state.rerun()
        return
    left.progress(job.fraction, text=background.line(job))
    right.button("Cancel", key="cancel", on_click=job.leave, args=(state.viewer(),))


def _choices(ask: Ask) -> None:
    """How the scores are looked at: nothing is measured anew for it."""
    first, left, right = st.columns(3)
    direction, within = state.remember("direction", "signed"), state.remember("within", "all heads")
    with first:
        _choice("colour", "Colour by", COLOUR, state.remember("colour", "score"))
    with left:
        if ask.method in methods.SIGNED:
            _choice("direction", "Score's direction", DIRECTION, direction)
    with right:
        _choice("within", "Compare a head with", WITHIN, within)


def _choice(name: str, label: str, lines: dict[str, str], current: str) -> None:
    key = f"_{name}"

    def changed() -> None:
        st.session_state[f"hl_{name}"] = st.session_state[key]
        st.session_state["hl_redraw"] = True

    state.fill(key, current)
    st.segmented_control(label, list(lines), key=key, required=True, on_change=changed)
    st.caption(lines[current])


def _effect(chosen: Chosen) -> None:
    """Loss (or drift) with all heads on and with the chosen ones off, on the live set."""
    if cache.live_job(chosen.lens, state.viewer()).running:
        st.caption("The loss with all heads on is being measured …")
        return
    off = state.off_heads(chosen.lens.topology)
    try:
        found = effects.live_now(chosen, off)
    except HeadlensError as error:
        st.warning(words.plain(str(error)), icon=":material/info:")
        return
    metrics: list[tuple[str, str, str | None]] = []
    loss, drift = found.measured.get("loss"), found.measured.get("drift")
    if loss is not None:
        metrics.append(("Loss", f"{loss.value:.4f}", f"{loss.delta:+.4f}" if len(off) else None))
    if drift is not None and loss is None:
        metrics.append(("Drift", f"{drift.value:.4f}", None))
    accuracy = found.measured.get("accuracy")
    if accuracy is not None:
        metrics.append(("Accuracy", f"{accuracy.value:.1%}", f"{accuracy.delta:+.1%}" if len(off) else None))
    for column, (label, value, delta) in zip(st.columns(len(metrics)), metrics, strict=True):
        column.metric(label, value, delta, **effects.change_looks(delta, up_is_good=label == "Accuracy"))
    st.caption(words.off_sentence(found, len(off), len(chosen.lens.topology.heads())))


def _figures(chosen: Chosen, job: Job | None) -> None:
    """How the scores are spread, and what each layer adds up to."""
    try:
        shown: Shown = shown_now(chosen, _ask(chosen), job)
    except HeadlensError:  # the map says why
        return
    dark = st.context.theme.type == "dark"
    left, right = st.columns(2)
    left.plotly_chart(distribution(shown.values, unit=shown.unit, dark=dark), width="stretch", key="fig_distribution")
    right.plotly_chart(by_layer(shown.values, unit=shown.unit, dark=dark), width="stretch", key="fig_layers")
    role_fates.section(found_roles(_roles(chosen) if _ready(job) else None), shown)
