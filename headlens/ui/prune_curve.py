"""First step of pruning: the curve with its controls."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

import streamlit as st

from headlens.charts.curve import TITLES, pruning_curve
from headlens.ui import background, cache, engines, state, words
from headlens.ui.choices import encode_for
from headlens.ui.jobs import Job
from headlens.ui.prune_options import GATE_STEPS, PENALTIES, CurveOptions, options

if TYPE_CHECKING:
    from headlens.data.encode import EncodedData
    from headlens.pruning.points import Curve
    from headlens.ui.choices import Chosen


def section(chosen: Chosen) -> Curve | None:
    """Draws the choices, the work and the figure; the curve once it is measured."""
    asked = options(chosen)
    key = _key(chosen, asked)
    reported = held_out(chosen)
    st.caption(
        f"Heads are ordered by the sidebar's score on {len(chosen.data)} examples and switched off in steps of 10 %; "
        f"every point is measured on {len(reported)} "
        + ("held-out examples" if reported.hash != chosen.data.hash else "examples (the same ones: that flatters)")
        + f", at most {asked.passes} passes over {reported.tokens or len(reported)} predictions. What is finished is "
        "kept."
    )
    job = cache.jobs().get(key)
    if job is None or job.status == "failed":
        st.button(
            "Draw the curve",
            key="curve_start",
            type="primary",
            icon=":material/show_chart:",
            on_click=lambda: background.start("curve", key, "The curve", _work(chosen, reported, asked)),
        )
    else:
        st.session_state["hl_job_curve"] = key
    job = background.finished("curve", key)
    if job is None:
        return None
    found: Curve = job.result
    _draw(found)
    return found


def held_out(chosen: Chosen) -> EncodedData:
    """The other half of the chosen set, on which everything is reported; a user's own text is not split."""
    from headlens.data.select import load_data

    if chosen.data.split == "all":
        return chosen.data
    return encode_for(chosen.lens, load_data(chosen.data.name, task=chosen.lens.task, split="held-out"))


def _key(chosen: Chosen, asked: CurveOptions) -> Hashable:
    data = (chosen.data.hash, chosen.data.split)
    how = (chosen.method, chosen.metric, chosen.ablation, chosen.unit)
    return ("curve", chosen.lens.fingerprint, data, how, asked)


def _work(chosen: Chosen, reported: EncodedData, asked: CurveOptions) -> Any:
    def work(job: Job) -> Curve:
        from headlens.importance import METHODS
        from headlens.metrics import metric_for
        from headlens.pruning.curve import CurveSpec, curve
        from headlens.pruning.learned_gates import sweep_penalties
        from headlens.switches import as_ablation

        lens, store = chosen.lens, cache.store()
        steps = asked.steps(chosen)
        spec = CurveSpec(
            METHODS[chosen.method],
            metric_for(chosen.metric, lens.task),
            steps,
            rescore=asked.rescore,
            random=asked.random,
            greedy=asked.greedy,
            ablation=as_ablation(chosen.ablation),
        )
        shared: dict[str, Any] = {"store": store, "on_progress": job.progress, "on_phase": job.phase}
        penalties = PENALTIES if asked.gates else ()
        gates = sweep_penalties(lens, chosen.data, steps, penalties, count=GATE_STEPS, **shared)
        return curve(lens, chosen.data, reported, spec, gates=gates, **shared)

    return engines.placed(work)


def _draw(found: Curve) -> None:
    from headlens.pruning.chance import chance, sentence

    figures = [name for name in TITLES if found.baseline.figure(name) is not None]
    name = found.figure
    if len(figures) > 1:
        name = st.segmented_control(
            "Figure", figures, default=found.figure, format_func=TITLES.__getitem__, required=True, key="_curve_figure"
        )
    control = chance(found)
    said = sentence(found, control)
    dark = st.context.theme.type == "dark"
    st.plotly_chart(
        pruning_curve(found, figure=name, chance=control, dark=dark),
        width="stretch",
        key="fig_curve",
        alt=said,
        config={"toImageButtonOptions": {"format": image_format(), "filename": "pruning-curve", "scale": 2}},
    )
    st.markdown(words.plain(said))
    st.caption(
        "Error bars: 95 % of the difference from all on, over examples. " + words.plain(found.scores.stability())
    )


def image_format() -> str:
    """What the camera button of a figure saves."""
    return state.remember("image_format", "svg")
