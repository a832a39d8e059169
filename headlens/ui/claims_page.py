"""The claims page: what is said about head pruning, checked on the chosen model, one claim after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from headlens.claims.registry import REGISTRY
from headlens.errors import HeadlensError
from headlens.ui import background, state, words
from headlens.ui.claims_card import card
from headlens.ui.claims_work import SECTION, context_for, data_name, found_so_far, key_of, start
from headlens.ui.sidebar import refresh, sidebar_with_lens

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headlens.claims.context import Context
    from headlens.claims.run import Checked
    from headlens.lens import Lens

INTRO = (
    "Each sentence of the textbook answer is a check with a rule that was fixed beforehand. Heads are chosen on one "
    "half "
    "of the text and judged on the other; mixed means that the interval does not decide."
)
FILES = {".md": "text/markdown", ".html": "text/html", ".csv": "text/csv"}


def show() -> None:
    """Draws the page."""
    opened = sidebar_with_lens("claims")
    st.title("Claims, checked on this model")
    if opened is None or opened.chosen is None:
        st.info("Choose a model and a text in the sidebar to check the claims on it.", icon=":material/arrow_back:")
        return
    st.caption(INTRO)
    try:
        _claims(opened.lens)
    except HeadlensError as error:
        st.error(words.plain(str(error)), icon=":material/error:")
    refresh(opened.chosen)
    state.whole_page(False)


def _claims(lens: Lens) -> None:
    data = data_name()
    context = context_for(lens.name, lens, lens.fingerprint, data)
    if state.get("data") == state.OWN_DATA:
        st.caption("Your own text has no two halves, so the claims are checked on the model's default set.")
    costly = state.remember("claims_costly", False)
    key = key_of(lens, data, costly)
    if not background.is_shown(SECTION, key):
        _offer(lens, data, context)
    running = background.busy(SECTION)
    job = background.job_of(SECTION)
    version = 0 if job is None else job.version
    st.fragment(run_every=background.poll_seconds() if running else None)(_progress)(key, running, version)
    found = {one.claim.name: one for one in found_so_far()} if background.is_shown(SECTION, key) else {}
    if found:
        _summary(list(found.values()), lens)
        if not running:
            _more(lens, data, context, costly)
    left, right = st.columns(2)
    for place, claim in enumerate(REGISTRY):
        with (left, right)[place % 2]:
            card(claim, found.get(claim.name), lens, _clock(context, [claim]))


def _offer(lens: Lens, data: str, context: Context) -> None:
    state.fill("_claims_costly", state.remember("claims_costly", False))
    st.checkbox(
        "Also cut and retrain small models (minutes more)",
        key="_claims_costly",
        on_change=lambda: st.session_state.update(hl_claims_costly=st.session_state["_claims_costly"]),
    )
    costly = state.remember("claims_costly", False)
    guess = _clock(context, [claim for claim in REGISTRY if costly or not claim.costly])
    label = f"Check {len(REGISTRY)} claims (about {guess})"
    st.button(
        label,
        key="claims_start",
        type="primary",
        icon=":material/fact_check:",
        on_click=start,
        args=(lens, data, costly),
    )
    st.caption("What was checked before comes from the store at once. The guess is for two free processor cores.")


def _more(lens: Lens, data: str, context: Context, costly: bool) -> None:
    """After a run: what it left out, and everything once more."""

    def go(also_costly: bool, resume: bool) -> None:
        st.session_state["hl_claims_costly"] = also_costly
        start(lens, data, also_costly, resume)

    with st.container(horizontal=True):
        if not costly:
            guess = _clock(context, [claim for claim in REGISTRY if claim.costly])
            st.button(
                f"Also cut and retrain small models (about {guess} more)",
                key="claims_more",
                icon=":material/add:",
                on_click=go,
                args=(True, True),
            )
        st.button(
            "Check all of it afresh",
            key="claims_afresh",
            icon=":material/replay:",
            type="tertiary",
            help="Computes everything again, also what is in the store.",
            on_click=go,
            args=(costly, False),
        )


def _clock(context: Context, claims: Sequence[object]) -> str:
    from headlens.claims.costs import seconds
    from headlens.cli.progress import clock

    return clock(max(1.0, seconds(context, claims)))  # type: ignore[arg-type]


def _progress(key: object, running: bool, version: int) -> None:
    """Progress and cancel; a claim that is done draws the page again."""
    background.finished(SECTION, key)  # type: ignore[arg-type]
    job = background.job_of(SECTION)
    changed = job is not None and job.version != version
    if (changed or running != background.busy(SECTION)) and not state.is_whole_page():
        state.rerun()


def _summary(found: list[Checked], lens: Lens) -> None:
    from headlens.claims.export import exported
    from headlens.claims.run import headline

    against = any(one.disagrees for one in found)
    (st.warning if against else st.info)(
        words.plain(headline(found)), icon=":material/rule:" if against else ":material/info:"
    )
    with st.container(horizontal=True):
        for ending, kind in FILES.items():
            st.download_button(
                f"Download {ending[1:].upper()}",
                exported(found, lens.name, ending),
                f"claims{ending}",
                kind,
                key=f"claims_file_{ending[1:]}",
                icon=":material/download:",
            )
