"""Do the methods agree? Every pair of scores: rank correlations with intervals, shared tops, and a scatter."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import streamlit as st

from headlens.charts.agreement import scatter
from headlens.importance import METHODS
from headlens.ui import background, cache, methods, state
from headlens.ui.available import available, scores_together
from headlens.ui.shown import columns, trusted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headlens.agreement import Agreement
    from headlens.scores import HeadScores
    from headlens.ui.choices import Chosen
    from headlens.ui.compute import Ask
    from headlens.ui.jobs import Job

_NO_SLOPE = ("gradient", "fisher")


def agreement_section(chosen: Chosen, ask: Ask) -> None:
    """Draws the section; it computes only when it is open."""
    st.toggle(
        "**Do the methods agree?**",
        key="_agree",
        value=state.remember("agree", False),
        on_change=lambda: st.session_state.update(hl_agree=st.session_state["_agree"]),
    )
    if not state.remember("agree", False):
        st.caption("Rank correlations of every pair of methods, with intervals, and what their tops share.")
        return
    busy = any(job is not None and job.running for job in (_missing_job(), _pairs_job()))
    st.fragment(run_every=background.poll_seconds() if busy else None)(_section)(chosen, ask, busy)


def _missing_job() -> Job | None:
    key = st.session_state.get("hl_job_methods")
    return None if key is None else cache.jobs().get(key)


def _pairs_job() -> Job | None:
    key = st.session_state.get("hl_job_pairs")
    return None if key is None else cache.jobs().get(key)


def _section(chosen: Chosen, ask: Ask, busy: bool) -> None:
    known = available(chosen.lens, chosen.data, ask)
    _offer_missing(chosen, ask, known)
    silent = [METHODS[name].title for name, scores in known.items() if scores.no_signal]
    usable = {name: scores for name, scores in known.items() if not scores.no_signal}
    if silent:
        st.warning(
            f"Left out, as there is no ranking to compare: {', '.join(silent)} "
            f"({next(scores.no_signal for scores in known.values() if scores.no_signal)}).",
            icon=":material/warning:",
        )
    if len(usable) < 2:
        st.caption("Two methods with a ranking are needed.")
    else:
        _compare(chosen, ask, usable)
    if busy != any(job is not None and job.running for job in (_missing_job(), _pairs_job())):
        state.rerun()


def _offer_missing(chosen: Chosen, ask: Ask, known: Mapping[str, HeadScores]) -> None:
    """A button that computes what is missing, and its progress."""
    job = _missing_job()
    if job is not None and background.left_behind(job, "methods"):
        return
    if job is not None and job.running:
        job.look(state.viewer())
        left, right = st.columns([4, 1], vertical_alignment="center")
        left.progress(job.fraction, text=background.line(job))
        right.button("Cancel", key="cancel_methods", on_click=job.leave, args=(state.viewer(),))
        return
    apply = [name for name in methods.COMPARED if ask.metric == "loss" or name not in _NO_SLOPE]
    failed = {name for name in apply if _failed(replace(ask, method=name))}
    missing = [name for name in apply if name not in known and name not in failed]
    if not missing:
        return
    wanted = st.multiselect(
        "Compute too",
        missing,
        default=[name for name in missing if name != "ablation"],
        key="_missing",
        format_func=lambda name: f"{METHODS[name].title} ({METHODS[name].cost})",
    )
    if st.button("Compute", key="compute_missing", icon=":material/calculate:", disabled=not wanted):
        asks = [replace(ask, method=name) for name in wanted]
        st.session_state["hl_job_methods"] = scores_together(chosen.lens, chosen.data, asks, state.viewer()).key
        state.rerun()


def _failed(ask: Ask) -> bool:
    job = cache.jobs().get(ask.base.key)
    return job is not None and job.status == "failed"


def _compare(chosen: Chosen, ask: Ask, usable: Mapping[str, HeadScores]) -> None:
    job = _pairs(ask, usable)
    if job.running:
        job.look(state.viewer())
        st.progress(job.fraction, text=f"Comparing {len(usable)} methods: {job.fraction:.0%}")
        return
    if job.status != "done":
        st.warning(job.error or "The comparison was stopped.", icon=":material/info:")
        return
    pairs: list[Agreement] = job.result
    shaky = [METHODS[name].title for name, scores in usable.items() if not trusted(scores)]
    if shaky:
        st.caption(f"Unstable on this text, so their agreement is blurred by noise: {', '.join(shaky)}.")
    st.table(
        [
            {
                "methods": f"{pair.first} · {pair.second}",
                "Spearman rho [95 %]": str(pair.spearman),
                "Kendall tau [95 %]": str(pair.kendall),
                "tops shared": f"{pair.shared} of {pair.top} (chance {pair.expected:.1f})",
            }
            for pair in pairs
        ]
    )
    st.caption(
        "Intervals: bootstrap over heads. Methods with a direction are compared as the map shows them: "
        + ("signed, so a head that harms ranks last." if ask.signed else "by size, whatever the direction.")
    )
    _scatter(chosen, ask, usable, pairs)


def _pairs(ask: Ask, usable: Mapping[str, HeadScores]) -> Job:
    from headlens.agreement import compare

    def work(job: Job) -> list[Agreement]:
        flat = {METHODS[name].title: scores.flat() for name, scores in usable.items()}
        names = list(flat)
        both = [(a, b) for i, a in enumerate(names) for b in names[i + 1 :]]
        found = []
        for done, (a, b) in enumerate(both):
            job.progress(done, len(both))
            found.append(compare(a, flat[a], b, flat[b], unit=ask.unit))
        return found

    key = ("agreement", ask.key, tuple(usable))
    st.session_state["hl_job_pairs"] = key
    return cache.jobs().start(key, "Comparing", work, state.viewer())


def _scatter(chosen: Chosen, ask: Ask, usable: Mapping[str, HeadScores], pairs: list[Agreement]) -> None:
    names = list(usable)
    left, right = st.columns(2)
    first = left.selectbox("Across", names, format_func=lambda n: METHODS[n].title, key="_agree_x")
    others = [name for name in names if name != first]
    second = right.selectbox("Up", others, format_func=lambda n: METHODS[n].title, key="_agree_y")
    titles = {METHODS[first].title, METHODS[second].title}
    pair = next(pair for pair in pairs if {pair.first, pair.second} == titles)
    st.markdown(pair.sentence())
    unit = "of the layer's norm" if ask.normalize == "layer" else ""
    figure = scatter(
        list(columns(chosen.lens.topology, ask.unit)),
        usable[first].flat(),
        usable[second].flat(),
        names=(METHODS[first].title, METHODS[second].title),
        units=(unit or _unit(chosen, ask, first), unit or _unit(chosen, ask, second)),
        top=pair.top,
        dark=st.context.theme.type == "dark",
    )
    st.plotly_chart(figure, width="stretch", key="fig_agreement")


def _unit(chosen: Chosen, ask: Ask, method: str) -> str:
    return methods.unit_of(method, ask.metric, chosen.lens.task)
