"""The live experiment: choose, run, watch, and read what it says."""

from __future__ import annotations

from dataclasses import replace

import streamlit as st

from headlens.lab.estimate import LONG_SECONDS
from headlens.lab.questions import CONTROLS
from headlens.lab.shipped import shipped_runs
from headlens.lab.specs import Architecture
from headlens.lab.study import Study
from headlens.ui import background, state
from headlens.ui.lab_form import SHAPES, choose_study, cost_sentence
from headlens.ui.lab_results import show_study
from headlens.ui.lab_work import SECTION, Live, key_of, known, start

FIGURE_SECONDS = 2.0
GUESS = 8
"""The guessed time may be so many times too short; what is measured at the start decides."""
TASK = """
Sequences of random bits. At each position the target is made of the bits at a few fixed distances back, so every
distance that no head serves costs **one whole bit**. A one-layer transformer (width 64, MLP 128, heads 8 wide
whatever their number) is trained from scratch with few heads, and with many heads that are then **pruned to few,
without retraining**. Is it easier to keep few heads than to learn with few?
"""
LIMITS = """
- A head *can* serve two distances (it splits its attention unevenly and the MLP decodes), so "one head a distance"
  is what usually happens, not a bound: see the control *Fewer heads than distances*.
- One layer, one small task, one optimiser. What holds here need not hold for language: see *Language model* above.
- Pruning has one advantage that no control removes: it looks at a trained model of twice the size. *Equal compute*
  and *Longer training* give the few heads the compute back, *Lottery ticket* their lucky start; the search over
  many heads at once is what remains, and is what the claim is about.
- The optimiser and its schedule were chosen on the models with many heads too; *Other learning rates* tries three.
- Not tried: other optimisers, weight decay, dropout, growing heads, or a search over seeds with equal total
  compute.
"""


def show() -> None:
    """Draws the section."""
    st.markdown(TASK)
    study = choose_study()
    if study is not None:
        _run_button(study)
    shown: Study | None = st.session_state.get("hl_lab_study")
    if shown is not None:
        running = background.busy(SECTION)
        st.subheader("Your runs", anchor=False)
        st.fragment(run_every=background.poll_seconds() if running else None)(_watch)(shown, running)
        st.fragment(run_every=FIGURE_SECONDS if running else None)(_figures)(shown)
    _shipped()
    with st.expander("What this can and cannot show"):
        st.markdown(LIMITS)


def _run_button(study: Study) -> None:
    sentence, seconds = cost_sentence(study)
    long = False
    left, right = st.columns([1, 3], vertical_alignment="center")
    right.caption(sentence)
    if seconds > LONG_SECONDS / GUESS:
        long = right.checkbox("It may take longer than an hour", key="_lab_long")
    too_long = seconds > LONG_SECONDS and not long
    left.button("Run", key="lab_run", type="primary", disabled=too_long, on_click=_begin, args=(study, long))


def _begin(study: Study, long: bool) -> None:
    st.session_state["hl_lab_study"] = study
    start(study, long=long)


def _watch(study: Study, running: bool) -> None:
    """Progress of the own study; polls while it runs."""
    if running and not background.busy(SECTION):
        state.rerun()  # one last full run, then no more polling
    background.finished(SECTION, key_of(study))
    if background.busy(SECTION) and not known(background.job_of(SECTION)).curves:
        st.caption("The processes are starting; the first points come in a few seconds.")


def _figures(study: Study) -> None:
    """What the own study has found so far; drawn anew now and then while it runs."""
    live = known(background.job_of(SECTION))
    if live.curves:
        show_study(study, live, "own", tables=not background.busy(SECTION))


def shipped_study(shape: str) -> tuple[Study, Live] | None:
    """The runs that come with HeadLens, as a study of its own; None where there are none of that shape."""
    found = shipped_runs()
    runs = [] if found is None else [run for run in found.runs if run.spec.architecture.shape == shape]
    if not runs:
        return None
    plain = Architecture(1, shape)  # type: ignore[arg-type]
    results = {replace(run.spec, checkpoints=False): run for run in runs}
    seeds = tuple(sorted({run.spec.training.seed for run in runs}))
    heads = tuple(
        sorted(
            {
                spec.architecture.heads
                for spec in results
                if spec.after is None
                and replace(spec.architecture, heads=1) == plain
                and spec.task == replace(spec.task, distances=(1, 4, 8, 13), symbols=2)
            }
        )
    )
    study = Study(heads, 4, seeds, architecture=plain)
    if study.larger:
        controls = [
            control
            for control in CONTROLS.values()
            if control.name != "other-shape"
            and all(spec in results for arm in study.control_arms(control) for spec in arm.runs(seeds[:2]))
        ]
        study = replace(study, controls=tuple(controls))
    wanted = [spec for spec in study.specs() if spec in results]
    live = Live({s: results[s].curve for s in wanted}, {s: results[s] for s in wanted})
    return study, live


def main_sentences(shape: str) -> list[str]:
    """What the shipped runs of a shape say to the main question, for each number of heads that is pruned."""
    ready = shipped_study(shape)
    if ready is None:
        return []
    study, live = ready
    tallies = study.tallies(live.results)
    asked = (f"pruned-{large}" for large in study.larger)
    return [v.sentence for name in asked for v in study.verdicts(tallies) if v.first == name and "scratch" in v.second]


def _shipped() -> None:
    """The main sentences of both shapes, then everything about the form's shape, where there are such runs."""
    st.subheader("Runs that come with HeadLens", anchor=False)
    for shape, title in SHAPES.items():
        for sentence in main_sentences(shape):
            st.markdown(f"- **{title}.** {sentence}")
    ready = shipped_study(state.remember("lab_shape", "llama"))
    if ready is None:
        st.caption("There are none for this shape yet. `python benchmarks/lab_bits.py` makes them.")
        return
    study, live = ready
    found = shipped_runs()
    assert found is not None
    libraries = ", ".join(f"{name} {version}" for name, version in found.versions.items())
    title = SHAPES[study.architecture.shape]
    st.markdown(f"**In detail: {title}** (the shape chosen above)")
    st.caption(f"{len(study.seeds)} seeds, made on {found.made} by `{found.command}` ({libraries}).")
    show_study(study, live, "shipped")
