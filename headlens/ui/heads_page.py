"""The first page: the map of heads, coloured by how much each one matters, and its switches."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import streamlit as st

from headlens.charts.scores import by_layer, distribution
from headlens.errors import HeadlensError
from headlens.importance import METHODS
from headlens.ui import cache, state, words
from headlens.ui.compute import Ask, Partial, score_job, scores_now
from headlens.ui.grid import switch_grid
from headlens.ui.sidebar import Chosen, sidebar

if TYPE_CHECKING:
    from headlens.scores import HeadScores
    from headlens.ui.jobs import Job

POLL_SECONDS = 0.5


def show() -> None:
    """Draws the page."""
    chosen = sidebar("heads")
    st.title("Which heads matter?")
    if chosen is None:
        st.info("Choose a model and a text in the sidebar to see its heads.", icon=":material/arrow_back:")
        return
    st.caption(f"{chosen.lens.title} · measured on {chosen.data.name}, {len(chosen.data)} examples")
    for note in chosen.lens.notes:
        st.caption(note)
    ask = Ask(
        chosen.lens.name,
        chosen.lens.fingerprint,
        chosen.data.hash,
        chosen.method,
        chosen.metric,
        chosen.ablation,
        chosen.unit,  # type: ignore[arg-type]
        signed=True,
    )
    try:
        job = (
            None
            if chosen.method in ("magnitude", "magnitude-ov", "random")
            else score_job(chosen.lens, chosen.data, ask)
        )
    except HeadlensError as error:
        st.error(str(error), icon=":material/error:")
        return
    live = job is not None and job.running
    st.fragment(run_every=POLL_SECONDS if live else None)(_map)(chosen, ask, job, live)
    state.publish_url()


def _map(chosen: Chosen, ask: Ask, job: Job | None, live: bool) -> None:
    """Progress, grid, numbers and figures; runs by itself on every toggle and, while work goes on, twice a second."""
    if job is not None and job.running:
        job.look(state.viewer())
    elif live:
        st.rerun()  # one last full run, then no more polling
    shown = _shown(chosen, ask, job)
    _progress(job)
    st.markdown(shown.sentence)
    left, right = st.columns([3, 2], gap="large")
    with left:
        view = switch_grid(
            "grid_map",
            chosen.lens.topology,
            shown.values,
            sem=shown.sem,
            unit=ask.unit,
            kind="diverging" if shown.signed else "sequential",
            score_unit=shown.unit,
        )
    with right:
        _effect(chosen)
        _card(chosen, shown, view.pinned or view.active)
    if shown.final is not None:
        st.caption(shown.final.stability())
    _figures(shown)
    state.publish_url()


class _Shown:
    """What the grid shows now: final scores, or what there is so far."""

    def __init__(self, values: dict[str, np.ndarray], sem: dict[str, np.ndarray], method: str, unit: str) -> None:
        self.values, self.sem, self.method, self.unit = values, sem, method, unit
        self.signed = method == "ablation" or method == "gradient"
        self.sentence = ""
        self.final: HeadScores | None = None


def _shown(chosen: Chosen, ask: Ask, job: Job | None) -> _Shown:
    unit = words.unit_of(ask.method, ask.metric, chosen.lens.task)
    if job is None:
        scores = scores_now(chosen.lens, None, ask)
        found = _from_scores(scores, unit)
    elif job.status == "done":
        found = _from_scores(job.result, unit)
    elif isinstance(job.partial, Partial):
        found = _Shown(job.partial.values, job.partial.sem, ask.method, unit)
        done, layers = job.partial.layers_done, job.partial.layers
        found.sentence = (
            "First-order estimates, until the exact numbers come. "
            if not done
            else f"Exact in {done} of {layers} layers, first-order estimates in the others. "
        )
    else:
        magnitude = scores_now(chosen.lens, None, replace(ask, method="magnitude"))
        found = _from_scores(magnitude, words.unit_of("magnitude", "", ""))
        found.final = None
        found.sentence = "Coloured by weight magnitude until the first layers are measured. "
    total = sum(np.isfinite(array).sum() for array in scores_now_shape(chosen, ask).values())
    found.sentence += words.count_sentence(
        found.values,
        metric=ask.metric,
        method=found.method,
        total=int(total),
        unit_word="heads" if ask.unit == "head" else "KV groups",
    )
    return found


def scores_now_shape(chosen: Chosen, ask: Ask) -> dict[str, np.ndarray]:
    """Arrays that are finite where the model has a head (or group)."""
    found = {}
    for site in chosen.lens.topology.sites:
        array = np.full((len(site.layers), site.width(ask.unit)), np.nan)
        for layer in range(len(site.layers)):
            array[layer, list(site.columns(layer, ask.unit))] = 0.0
        found[site.name] = array
    return found


def _from_scores(scores: HeadScores, unit: str) -> _Shown:
    found = _Shown(dict(scores.values), dict(scores.sem), scores.method, unit)
    found.final = scores
    return found


def _progress(job: Job | None) -> None:
    if job is None or job.status == "done":
        return
    if job.status == "failed":
        st.error(job.error, icon=":material/error:")
        return
    if job.status == "cancelled":
        left, right = st.columns([4, 1])
        left.info("Stopped. What was measured is kept; starting again goes on from there.", icon=":material/pause:")
        right.button("Go on", key="resume", on_click=cache.jobs().drop, args=(job.key,), type="primary")
        return
    left, right = st.columns([4, 1], vertical_alignment="center")
    left.progress(job.fraction, text=f"{job.title}: {job.fraction:.0%}, {words.duration(job.seconds_left)}")
    right.button("Cancel", key="cancel", on_click=job.leave, args=(state.viewer(),))


def _effect(chosen: Chosen) -> None:
    """Loss (or drift) with all heads on and with the chosen ones off, on the live set."""
    from headlens.metrics import metric_for
    from headlens.switches import as_ablation

    off = state.off_heads(chosen.lens.topology)
    live = cache.live_evaluator(chosen.lens.name, chosen.lens, chosen.lens.fingerprint)
    found = live.evaluate(off, metric=metric_for(None, chosen.lens.task), ablation=as_ablation(chosen.ablation))
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
        column.metric(label, value, delta, delta_color="normal" if label == "Accuracy" else "inverse")
    st.caption(words.off_sentence(found, len(off), len(chosen.lens.topology.heads())))


def _card(chosen: Chosen, shown: _Shown, label: str | None) -> None:
    """The head that is looked at."""
    with st.container(border=True):
        if label is None:
            st.caption("Point at a head, or move to it with the arrow keys, to see its card. Enter pins the card.")
            return
        st.markdown(f"**{label}**")
        row = _row(chosen, shown, label)
        if row is None:
            st.caption("Not measured yet.")
            return
        value, error, rank, total = row
        plus_minus = f" ± {error:.4f}" if np.isfinite(error) else ""
        st.markdown(f"{METHODS[shown.method].title}: **{value:.4f}**{plus_minus} {shown.unit}")
        st.caption(f"Rank {rank} of {total} (1 = matters most); above {1 - rank / total:.0%} of the heads.")


def _row(chosen: Chosen, shown: _Shown, label: str) -> tuple[float, float, int, int] | None:
    flat: list[tuple[str, float, float]] = []
    letter = "kv" if "G" in label else "head"
    for site, array in shown.values.items():
        for layer, column in zip(*np.nonzero(np.isfinite(array)), strict=True):
            name = chosen.lens.topology.label(site, int(layer), int(column), letter)  # type: ignore[arg-type]
            flat.append((name, float(array[layer, column]), float(shown.sem[site][layer, column])))
    found: Any = next((row for row in flat if row[0] == label), None)
    if found is None:
        return None
    rank = 1 + sum(value > found[1] for _, value, _ in flat)
    return found[1], found[2], rank, len(flat)


def _figures(shown: _Shown) -> None:
    dark = st.context.theme.type == "dark"
    left, right = st.columns(2)
    left.plotly_chart(distribution(shown.values, unit=shown.unit, dark=dark), width="stretch", key="fig_distribution")
    right.plotly_chart(by_layer(shown.values, unit=shown.unit, dark=dark), width="stretch", key="fig_layers")
