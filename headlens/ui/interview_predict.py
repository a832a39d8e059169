"""Predict, then measure: commit to a prediction; the heads are switched off on the live set, and the result decides."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import streamlit as st

from headlens.errors import HeadlensError
from headlens.interview.grading import Mark
from headlens.interview.predict import Outcome, Trial, mark, measure, trial
from headlens.interview.questions import Predict
from headlens.ui import background, cache, state, words
from headlens.ui.interview_forms import widgets
from headlens.ui.interview_kit import Kit

if TYPE_CHECKING:
    from headlens.evaluate import Evaluation
    from headlens.heads import HeadSet
    from headlens.lens import Lens
    from headlens.ui.jobs import Job

SECTION = "iv_predict"


def prediction(
    question: Predict, name: str, seed: int, kit: Kit, done: bool, record: Callable[[Any, Mark], None]
) -> None:
    """Draws the prediction, its measurement while it runs, and the outcome; ``record`` is called once with the mark."""
    found: tuple[str, Outcome] | None = st.session_state.get("hl_iv_outcomes", {}).get(name)
    if done and found is not None:  # of the model that was open then
        _said(found[0])
        _table(found[1])
        return
    lens = kit.lens
    if lens is None or kit.chosen is None:
        st.info(
            "This one needs a model and a text: choose them in the sidebar. You can skip it.",
            icon=":material/arrow_back:",
        )
        return
    try:
        asked = _trial(lens, question, seed)
    except HeadlensError as error:
        st.info(words.plain(f"{error}. Skip it, or choose another model."), icon=":material/info:")
        return
    committed: dict[tuple[str, str], int] = st.session_state.setdefault("hl_iv_committed", {})
    place = committed.get((name, lens.fingerprint))  # another model has other heads, to be predicted anew
    if place is None:
        _commit(question, name, seed, asked, lambda picked: committed.update({(name, lens.fingerprint): picked}))
        return
    _said(asked.options[place])
    key = ("iv predict", lens.fingerprint, kit.chosen.ablation, asked)
    if not background.is_shown(SECTION, key):
        background.start(SECTION, key, "Switching heads off on the live set", lambda job: _work(job, lens, asked, kit))
    polling = background.busy(SECTION)
    st.fragment(run_every=background.poll_seconds() if polling else None)(_outcome)(key, name, asked, place, record)


def _said(option: str) -> None:
    st.markdown(f"You said: **{words.plain(option)}**.")


def _trial(lens: Lens, question: Predict, seed: int) -> Trial:
    """Drawn once for a model: the heads must not change between two runs of the page."""
    drawn: dict[Any, Trial] = st.session_state.setdefault("hl_iv_trials", {})
    key = (lens.fingerprint, question.pick, seed)
    if key not in drawn:
        drawn[key] = trial(lens, question.pick, seed)
    return drawn[key]


def _commit(question: Predict, name: str, seed: int, asked: Trial, keep: Callable[[int], None]) -> None:
    if asked.joint:
        st.markdown(f"The two heads: **{words.plain(' and '.join(asked.heads))}**.")

    def commit() -> None:
        place = st.session_state.get(f"_iv_{name}_pick")
        if place is None:
            state.notice("Choose a prediction first; then it is measured.")
        else:
            keep(place)

    with st.form(f"_iv_{name}_form", border=False):
        widgets(question, name, seed, asked)
        st.form_submit_button("Commit and measure", type="primary", on_click=commit, key=f"_iv_{name}_submit")


def _work(job: Job, lens: Lens, asked: Trial, kit: Kit) -> Outcome:
    from headlens.metrics import metric_for
    from headlens.switches import as_ablation

    assert kit.chosen is not None
    metric, ablation = metric_for(None, lens.task), as_ablation(kit.chosen.ablation)
    job.progress(0, len(asked.heads) + 1)
    live = cache.live_evaluator(lens.name, lens, lens.fingerprint)

    def evaluate(off: HeadSet) -> Evaluation:
        return live.evaluate(off, metric=metric, ablation=ablation)

    return measure(asked, lens.topology, evaluate, job.progress)


def _outcome(key: Any, name: str, asked: Trial, picked: int, record: Callable[[Any, Mark], None]) -> None:
    job = background.finished(SECTION, key)
    if job is None:
        return
    outcome: Outcome = job.result
    outcomes = st.session_state.setdefault("hl_iv_outcomes", {})
    if name not in outcomes:
        outcomes[name] = (asked.options[picked], outcome)
        record(picked, mark(outcome, picked, len(asked.options)))
        if not state.is_whole_page():
            state.rerun()  # the rest of the page waits for this
    _table(outcome)


def _table(outcome: Outcome) -> None:
    import pandas as pd

    rows = [
        {
            "Off": effect.label,
            f"Change of {outcome.metric}": f"{effect.change:+.4f}",
            "± standard error": f"{effect.sem:.4f}",
        }
        for effect in outcome.effects
    ]
    st.dataframe(pd.DataFrame(rows), hide_index=True, width="stretch")
    st.markdown(words.plain(outcome.sentence))
    st.caption(
        f"Measured on the live set, {outcome.examples} examples; positive means that the model gets worse. Two effects "
        "count as different where the 95 % interval of their difference, paired by example, leaves zero out."
    )
