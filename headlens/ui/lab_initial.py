"""At initialisation: are heads linearly dependent, or just alike?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd
import streamlit as st

from headlens.charts.lab_similarity import alike_by_layer
from headlens.lab.shipped import INITIAL, made_by, shipped_table
from headlens.lab.similarity import LayerSimilarity, answer
from headlens.lab.statistics import mean
from headlens.ui import background, state
from headlens.ui.jobs import Job
from headlens.ui.lab_results import dark

if TYPE_CHECKING:
    from headlens.lens import Lens

SECTION = "lab_initial"
SEEDS = (0, 1, 2)
QUESTION = """
Are many heads needed because heads are **linearly dependent at initialisation**, so that some are copies of others
from the start? That is an answer one may be offered. It can be measured: take what each head writes into the
residual stream on a text, once with random weights and once with trained ones.

- *Rank*: each head's output is one long vector; heads are dependent when one is a combination of the others. The
  rank counts how many are not.
- *CKA* (linear centred kernel alignment): do two heads carry the same information, up to rotation and scale? 1 is
  the same, and what shuffled positions give is chance.
"""


def show(lens: Lens | None) -> None:
    """Draws the section; ``lens`` is the sidebar's model, or None."""
    st.markdown(QUESTION)
    if lens is None:
        st.info("Choose a model in the sidebar to compare its heads.", icon=":material/arrow_back:")
    else:
        _chosen_model(lens)
    _lab_models()


def _key(lens: Lens) -> tuple[str, str]:
    return SECTION, lens.fingerprint


def _chosen_model(lens: Lens) -> None:
    st.subheader("The model of the sidebar", anchor=False)
    running = background.busy(SECTION)
    st.fragment(run_every=background.poll_seconds() if running else None)(_compare)(lens, running)


def _compare(lens: Lens, running: bool) -> None:
    if running and not background.busy(SECTION):
        state.rerun()
    if not background.is_shown(SECTION, _key(lens)):
        label = f"Compare its heads, random ({len(SEEDS)} draws) and trained"
        st.button(label, key="lab_compare", type="primary", on_click=_start, args=(lens,))
        return
    job = background.finished(SECTION, _key(lens))
    if job is None:
        return
    random, trained = job.result
    st.markdown(f"- {answer(random[0], 'At initialisation')}\n- {answer(trained, 'After training')}")
    st.markdown(f"**{verdict(random, trained)}**")
    series = {f"random weights, draw {seed}": layers for seed, layers in zip(SEEDS, random, strict=True)}
    figure = alike_by_layer({**series, "trained weights": trained}, dark=dark())
    st.plotly_chart(figure, width="stretch", key="lab_alike")
    st.caption(
        f"The first {trained[0].positions} positions of the live text set, the same for all; a head's output is "
        "z times its part of the output projection."
    )


def _start(lens: Lens) -> None:
    def work(job: Job) -> tuple[list[list[LayerSimilarity]], list[LayerSimilarity]]:
        from headlens.data.select import live_set
        from headlens.lab.initial import head_similarity, with_random_weights

        data, found = live_set(lens), []
        total = len(SEEDS) + 1
        for number, seed in enumerate((*SEEDS, None)):
            job.progress(number, total)
            model = lens if seed is None else with_random_weights(lens, seed)
            found.append(head_similarity(model, data, on_progress=lambda _done, _all, n=number: job.progress(n, total)))
        return found[:-1], found[-1]

    background.start(SECTION, _key(lens), f"Comparing heads of {lens.title}", work)


def verdict(random: Sequence[Sequence[LayerSimilarity]], trained: Sequence[LayerSimilarity]) -> str:
    """The answer to the question, as the numbers have it."""
    several = [layer for layers in random for layer in layers if layer.heads > 1]
    if not several:
        return "Every layer has a single head: the question does not arise."
    dependent = sum(not layer.independent for layer in several)
    before = mean([layer.mean_cka for layer in several]).value
    after = mean([layer.mean_cka for layer in trained if layer.heads > 1]).value
    if dependent:
        first = (
            f"In {dependent} of {len(several)} layers (all draws) some heads are linearly dependent at initialisation"
        )
    else:
        first = "No: at initialisation no head is a linear combination of the others"
    change = "less" if after < before else "more"
    course = f"Heads start with a mean CKA of {before:.2f} and end with {after:.2f}: training makes them {change} alike"
    return f"{first}. {course}."


def _lab_models() -> None:
    st.subheader("The lab's own models", anchor=False)
    table = shipped_table(INITIAL)
    if table is None:
        st.caption("Not measured yet: `python benchmarks/lab_initial.py` does it.")
        return
    st.markdown(f"**{lab_sentence(table['rows'])}**")
    st.dataframe(pd.DataFrame(lab_rows(table["rows"])), hide_index=True)
    st.caption(f"Mean ± standard error over seeds; {made_by(table)}.")


def lab_sentence(rows: Sequence[dict[str, Any]]) -> str:
    """The answer to the question on the lab's models, as the rows have it."""
    first = [row for row in rows if row["when"] == "initial"]
    full = sum(row["rank"] == row["heads"] for row in first)
    if full == len(first):
        said = f"No: in all {full} models with random weights no head is a linear combination of the others"
    else:
        said = f"In {len(first) - full} of {len(first)} models with random weights some heads are linearly dependent"
    courses = []
    for shape in dict.fromkeys(row["shape"] for row in rows):
        means = (
            mean([row["mean_cka"] for row in rows if (row["shape"], row["when"]) == (shape, when)]).value
            for when in ("initial", "trained")
        )
        courses.append("{}: {:.2f} to {:.2f}".format(shape, *means))
    alike = "; ".join(courses)
    return f"{said}. Alike is another matter: mean CKA from before to after training, {alike}."


def lab_rows(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """One line for each shape, number of heads and moment."""
    found = []
    for shape, heads, when in dict.fromkeys((row["shape"], row["heads"], row["when"]) for row in rows):
        group = [r for r in rows if (r["shape"], r["heads"], r["when"]) == (shape, heads, when)]
        cka, smallest = (mean([row[name] for row in group]) for name in ("mean_cka", "smallest"))
        full = sum(row["rank"] == row["heads"] for row in group)
        found.append(
            {
                "Shape": shape,
                "Heads": heads,
                "Weights": "random" if when == "initial" else "trained",
                "Full rank": f"{full} of {len(group)} seeds",
                "Smallest / largest singular value": f"{smallest.value:.3f} ± {smallest.sem:.3f}",
                "Mean CKA of pairs": f"{cka.value:.2f} ± {cka.sem:.2f}",
                "Chance": f"{mean([row['shuffled'] for row in group]).value:.2f}",
            }
        )
    return found
