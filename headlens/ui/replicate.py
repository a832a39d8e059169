"""Does the ranking of the chosen model's heads hold on other texts, along pruning curves, and for other skills?"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import streamlit as st

from headlens.ui import background, cache, engines, inputs, skills, state, words

if TYPE_CHECKING:
    from headlens.lens import Lens
    from headlens.replication import Replication
    from headlens.replication_curves import CurveReplication
    from headlens.ui.jobs import Job

SECTION = "replicate"
PAIRS = 24
"""Pairs of each skill; every head is off in turn on each."""
TITLES = {"texts": "Texts", "curves": "Pruning curves", "skills": "Skills"}
LINES = {
    "texts": "Scores every head on each built-in set of texts (of a model of the zoo: on each half of its own set) and "
    "compares the rankings.",
    "curves": "Also switches off, on every set, the heads that each of the sets would let go first.",
    "skills": f"Switches every head off in turn on {PAIRS} minimal pairs of each skill and compares the rankings of "
    "the skills that the model has.",
}


@dataclass(frozen=True)
class Found:
    """What a comparison gave; ``curves`` is None unless they were asked for."""

    rankings: Replication
    curves: CurveReplication | None


def section(lens: Lens) -> None:
    """Draws the choice, the button and what was found."""
    st.subheader("Does the ranking hold elsewhere?", divider=False, anchor=False)
    st.caption(words.plain(f"In the chosen model, {lens.title}: rank against rank, with intervals."))
    kind = _kind(skills.applies(lens))
    busy = background.busy(SECTION)
    st.fragment(run_every=background.poll_seconds() if busy else None)(_found)(lens, kind, busy)


def _kind(with_skills: bool) -> str:
    titles = {name: title for name, title in TITLES.items() if with_skills or name != "skills"}
    return inputs.choice("Compare rankings between", "replicate_kind", titles)


def _found(lens: Lens, kind: str, busy: bool) -> None:
    key = key_of(lens, kind)
    if background.is_shown(SECTION, key):
        job = background.finished(SECTION, key)
        if job is not None:
            _draw(job.result)
    else:
        st.caption(LINES[kind])
        st.button(
            "Compare",
            key="replicate_start",
            icon=":material/compare_arrows:",
            on_click=lambda: background.start(SECTION, key, TITLES[kind], engines.placed(_work(lens, kind))),
        )
    if busy != background.busy(SECTION) and not state.is_whole_page():
        state.rerun()


def key_of(lens: Lens, kind: str) -> Hashable:
    """Names the comparison."""
    return SECTION, kind, lens.fingerprint


def _work(lens: Lens, kind: str) -> Callable[[Job], Found]:
    def work(job: Job) -> Found:
        from headlens.claims.examples import tokens_for
        from headlens.importance import method_for
        from headlens.metrics import metric_for
        from headlens.replication import replication
        from headlens.replication_run import How, SetRun, skill_scores

        options = {"store": cache.store(), "on_phase": job.phase, "on_progress": job.progress}
        if kind == "skills":
            return Found(replication(skill_scores(lens, How(limit=PAIRS, **options))), None)
        metric = metric_for(None, lens.task)
        method = method_for("gradient" if metric.differentiable else "ablation")
        run = SetRun(lens, method, metric, How(tokens=tokens_for(lens), **options))
        scores = run.scores(curves=kind == "curves")
        return Found(replication(scores), run.curves(scores) if kind == "curves" else None)

    return work


def _draw(found: Found) -> None:
    from headlens.charts.replication import correlations, transfers
    from headlens.replication import HOW_TO_READ

    dark = st.context.theme.type == "dark"
    rankings = found.rankings
    said = rankings.sentence()
    st.markdown(words.plain(said))
    if len(rankings.pairs) > 1:  # a single number needs no picture
        figure = correlations(rankings, dark=dark)
        st.plotly_chart(figure, width="stretch", key="fig_replicate", alt=said, config={"displayModeBar": False})
    for name, why in rankings.no_signal.items():
        st.caption(words.plain(f"Left out: {name} ({why})."))
    with st.expander("Every pair in numbers"):
        st.table(
            [
                {
                    "rankings": f"{pair.agreement.first} · {pair.agreement.second}",
                    "Spearman rho [95 %]": str(pair.rho),
                    "ceiling": "too noisy" if pair.ceiling != pair.ceiling else f"{pair.ceiling:.2f}",
                    "tops shared": f"{pair.agreement.shared} of {pair.agreement.top} "
                    f"(chance {pair.agreement.expected:.1f})",
                }
                for pair in rankings.pairs
            ]
        )
    st.caption(f"{HOW_TO_READ} The command `headlens replicate` has more choices.")
    if found.curves is not None:
        told = found.curves.sentence()
        st.markdown(words.plain(told))
        figure = transfers(found.curves, dark=dark)
        st.plotly_chart(figure, width="stretch", key="fig_transfers", alt=told, config={"displayModeBar": False})
