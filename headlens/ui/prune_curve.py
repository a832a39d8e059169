"""First steps of pruning: the curve with its controls, a budget, and which heads it lets go."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

import streamlit as st

from headlens.charts.curve import TITLES, pruning_curve
from headlens.errors import HeadlensError
from headlens.ui import background, cache, engines, state, words
from headlens.ui.choices import encode_for
from headlens.ui.jobs import Job

if TYPE_CHECKING:
    from headlens.data.encode import EncodedData
    from headlens.heads import HeadSet
    from headlens.pruning.budget import Within
    from headlens.pruning.points import Curve
    from headlens.ui.choices import Chosen

RANDOM_ORDERS = 5
PENALTIES = "0.003,0.01,0.03"
ALLOWED = {
    "loss": ("loss may rise by, %", 5.0, "loss+{}%"),
    "perplexity": ("perplexity may rise by, points", 1.0, "perplexity+{}"),
    "accuracy": ("accuracy may fall by, points", 1.0, "accuracy-{}"),
    "drift": ("drift may reach", 0.05, "drift+{}"),
    "kl": ("KL may reach, nats", 0.05, "kl+{}"),
}
"""Figures a budget can be about: the question, what is asked first, and how ``parse_budget`` writes it."""
WHICH = {
    "most": "as many as the estimate allows",
    "sure": "only as many as are sure to be within (error bar included)",
    "share": "a share that I choose",
    "switches": "the heads that are off on the switchboard",
}


def section(chosen: Chosen) -> Curve | None:
    """Draws the choices, the work and the figure; the curve once it is measured."""
    options = _options(chosen)
    key = _key(chosen, options)
    reported = held_out(chosen)
    passes = (10 - 1) * (2 + options["random"]) + 2
    st.caption(
        f"Heads are ordered by the sidebar's score on {len(chosen.data)} examples and switched off in steps of 10 %; "
        f"every point is measured on {len(reported)} "
        + ("held-out examples" if reported.hash != chosen.data.hash else "examples (the same ones: that flatters)")
        + f", at most {passes} passes over {reported.tokens or len(reported)} predictions. What is finished is kept."
    )
    job = cache.jobs().get(key)
    if job is None or job.status == "failed":
        st.button(
            "Draw the curve",
            key="curve_start",
            type="primary",
            icon=":material/show_chart:",
            on_click=lambda: background.start("curve", key, "The curve", _work(chosen, reported, options)),
        )
    else:
        st.session_state["hl_job_curve"] = key
    job = background.finished("curve", key)
    if job is None:
        return None
    found: Curve = job.result
    _draw(found)
    return found


def _options(chosen: Chosen) -> dict[str, Any]:
    """What the curve's own widgets ask for."""
    from headlens.importance import METHODS

    with st.container(horizontal=True, vertical_alignment="bottom"):
        floor = _number("Heads that stay in every layer", "curve_floor", 0, 64, 220)
        random = _number("Random orders", "curve_random", RANDOM_ORDERS, 20, 150)
        rescore = _toggle("Score anew at every step", "curve_rescore", disabled=not METHODS[chosen.method].needs)
        gates = _toggle("Learned gates too", "curve_gates")
    if rescore or gates:
        st.caption(
            "Scoring anew follows how heads take over from each other, at the price of one scoring a step. Learned "
            f"gates (Voita et al. 2019): weights frozen, 300 steps each for the penalties {PENALTIES}."
        )
    return {"floor": floor, "random": random, "rescore": rescore, "gates": gates}


def _number(label: str, name: str, first: int, most: int, width: int) -> int:
    value, key = state.remember(name, first), f"_{name}"
    state.fill(key, value)
    st.number_input(
        label,
        0,
        most,
        key=key,
        width=width,
        on_change=lambda: st.session_state.update({f"hl_{name}": int(st.session_state[key] or 0)}),
    )
    return int(st.session_state[f"hl_{name}"])


def _toggle(label: str, name: str, *, disabled: bool = False) -> bool:
    value, key = state.remember(name, False), f"_{name}"
    state.fill(key, value)
    st.toggle(
        label,
        key=key,
        disabled=disabled,
        on_change=lambda: st.session_state.update({f"hl_{name}": bool(st.session_state[key])}),
    )
    return bool(st.session_state[f"hl_{name}"]) and not disabled


def held_out(chosen: Chosen) -> EncodedData:
    """The other half of the chosen set, on which everything is reported; a user's own text is not split."""
    from headlens.data.select import load_data

    if chosen.data.split == "all":
        return chosen.data
    return encode_for(chosen.lens, load_data(chosen.data.name, task=chosen.lens.task, split="held-out"))


def _key(chosen: Chosen, options: dict[str, Any]) -> Hashable:
    data = (chosen.data.hash, chosen.data.split)
    how = (chosen.method, chosen.metric, chosen.ablation, chosen.unit)
    return ("curve", chosen.lens.fingerprint, data, how, tuple(sorted(options.items())))


def _work(chosen: Chosen, reported: EncodedData, options: dict[str, Any]) -> Any:
    def work(job: Job) -> Curve:
        from headlens.importance import METHODS
        from headlens.metrics import metric_for
        from headlens.pruning.curve import CurveSpec, curve
        from headlens.pruning.learned_gates import sweep_penalties
        from headlens.pruning.plan import Steps
        from headlens.switches import as_ablation

        lens, store = chosen.lens, cache.store()
        steps = Steps(lens.topology, chosen.unit, None, options["floor"])  # type: ignore[arg-type]
        spec = CurveSpec(
            METHODS[chosen.method],
            metric_for(chosen.metric, lens.task),
            steps,
            rescore=options["rescore"],
            random=options["random"],
            ablation=as_ablation(chosen.ablation),
        )
        shared: dict[str, Any] = {"store": store, "on_progress": job.progress, "on_phase": job.phase}
        penalties = [float(part) for part in PENALTIES.split(",")] if options["gates"] else []
        gates = sweep_penalties(lens, chosen.data, steps, penalties, **shared)
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
    dark = st.context.theme.type == "dark"
    st.plotly_chart(
        pruning_curve(found, figure=name, chance=control, dark=dark),
        width="stretch",
        key="fig_curve",
        config={"toImageButtonOptions": {"format": image_format(), "filename": "pruning-curve", "scale": 2}},
    )
    st.markdown(words.plain(sentence(found, control)))
    st.caption(
        "Error bars: 95 % of the difference from all on, over examples. " + words.plain(found.scores.stability())
    )


def image_format() -> str:
    """What the camera button of a figure saves."""
    return state.remember("image_format", "svg")


def budget_section(chosen: Chosen, found: Curve | None) -> HeadSet:
    """Asks for a budget and which heads go; the heads."""
    from headlens.heads import HeadSet

    switched = state.off_heads(chosen.lens.topology)
    allowed = _budget(found) if found is not None else None
    if allowed is None:
        st.caption(
            "Draw the curve to see how far a budget reaches."
            + (f" Or cut the {len(switched)} heads that are off on the switchboard." if len(switched) else "")
        )
    options = [
        name for name in WHICH if (name == "switches" and len(switched)) or (name != "switches" and found is not None)
    ]
    if not options:
        return HeadSet()
    current = state.remember("cut_which", options[0])
    current = current if current in options else options[0]
    state.fill("_cut_which", current)
    st.radio(
        "Heads to take out",
        options,
        key="_cut_which",
        format_func=WHICH.__getitem__,
        on_change=lambda: st.session_state.update(hl_cut_which=st.session_state["_cut_which"]),
    )
    if current == "switches" or found is None:
        return switched
    return _from_curve(found, current, allowed)


def _budget(found: Curve) -> Within | None:
    """The budget's widgets, and one sentence on how far it reaches."""
    from headlens.pruning.budget import parse_budget, sentence, within

    figures = [name for name in ALLOWED if found.baseline.figure(name) is not None]
    left, right = st.columns([1, 1])
    figure = left.selectbox("Figure of the budget", figures, format_func=TITLES.__getitem__, key="_budget_figure")
    figure = figure or figures[0]
    question, first, pattern = ALLOWED[figure]
    amount = right.number_input(
        question.capitalize(), 0.0, None, first, step=first / 5, format="%.4g", key=f"_budget_{figure}"
    )
    amount = (amount or 0.0) / (100 if figure == "accuracy" else 1)
    try:
        reach = within(found, parse_budget(pattern.format(f"{amount:.10f}".rstrip("0").rstrip(".") or "0")))
    except HeadlensError as error:
        st.warning(words.plain(str(error)), icon=":material/info:")
        return None
    st.markdown(words.plain(sentence(reach)))
    return reach


def _from_curve(found: Curve, which: str, allowed: Within | None) -> HeadSet:
    from headlens.heads import HeadSet

    points = [point for point in found.series("ranked") if point.heads_off]
    if which == "share":
        shares = {round(100 * point.fraction): point for point in points if point.heads_off < found.steps.heads}
        share = st.select_slider("Share of the heads, %", list(shares), key="_cut_share")
        return shares[share].result.off
    reach = None if allowed is None else allowed.reach["ranked"]
    point = None if reach is None else (reach.best if which == "most" else reach.sure)
    return HeadSet() if point is None else point.result.off
