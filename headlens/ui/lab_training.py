"""During training: how many heads could go at each moment."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from headlens.charts import lab as charts
from headlens.lab.pruning import KEPT_GAIN, LEARNT_SOMETHING
from headlens.lab.results import RunResult
from headlens.lab.shipped import shipped_runs
from headlens.lab.statistics import mean
from headlens.ui import background, state
from headlens.ui.lab_form import SHAPES
from headlens.ui.lab_results import dark
from headlens.ui.lab_work import SECTION, known

HOW = f"""
At seven moments of a training the heads are pruned greedily (chosen on one set of sequences, measured on another).
A head *could go* while the model keeps {KEPT_GAIN:.0%} of what it has gained over guessing. A model that has gained
less than {LEARNT_SOMETHING} of a symbol has nothing to lose, so there the line has a gap: calling all its heads
prunable would be true and empty. Michel et al. 2019 (§6) saw the same question in translation: in the first epochs
quality falls in step with the share of heads removed, from epoch 10 on a block of heads can go (up to 40 % at 85 to
90 % of the BLEU).
"""


def show() -> None:
    """Draws the section."""
    st.markdown(HOW)
    state.fill("_lab_training_shape", state.remember("lab_shape", "llama"))
    st.selectbox(
        "Shape of the model",
        list(SHAPES),
        format_func=lambda name: SHAPES[name],
        key="_lab_training_shape",
        on_change=lambda: st.session_state.update(hl_lab_shape=st.session_state["_lab_training_shape"]),
    )
    shape = st.session_state["hl_lab_shape"]
    own = [run for run in known(background.job_of(SECTION)).results.values() if run.checkpoints]
    found = shipped_runs()
    ready = [] if found is None else [run for run in found.runs if run.checkpoints]
    for title, runs, name in (("Your runs", own, "own"), ("Runs that come with HeadLens", ready, "shipped")):
        chosen = [run for run in runs if run.spec.architecture.shape == shape]
        if chosen:
            st.subheader(title, anchor=False)
            st.plotly_chart(charts.prunable_share(chosen, dark=dark()), width="stretch", key=f"{name}_share")
            for sentence in share_sentences(chosen):
                st.markdown(f"- {sentence}")
        elif name == "shipped":
            st.caption("None of this shape come with HeadLens yet. `python benchmarks/lab_bits.py` makes them.")
        else:
            st.caption("None of your runs has measured this: turn it on under *More choices* of the experiment.")


def share_sentences(runs: Sequence[RunResult]) -> list[str]:
    """For each number of heads: the mean share at the first moment with a share, and at the end."""
    said = []
    for heads in sorted({run.spec.architecture.heads for run in runs}):
        group = [run for run in runs if run.spec.architecture.heads == heads]
        early = [next((c for c in run.checkpoints if c.share is not None), None) for run in group]
        first = mean([c.share for c in early if c is not None and c.share is not None])
        last = mean([c.share for run in group if (c := run.checkpoints[-1]).share is not None])
        change = "more" if last.value > first.value else "fewer" if last.value < first.value else "as many"
        said.append(
            f"{heads} heads, {len(group)} seed{'s' if len(group) > 1 else ''}: when something has just been learnt "
            f"{first.value:.0%} ± {first.sem:.0%} of the heads could go, at the end {last.value:.0%} ± {last.sem:.0%}: "
            f"{change} at the end (± is the standard error over seeds)."
        )
    return said
