"""Live numbers of the interview page: what a text says that can be checked on the current model, checked on request."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import streamlit as st

from headlens.errors import HeadlensError
from headlens.ui import background, engines, state, words
from headlens.ui.claims_work import ASKED, check_in, checked, context_for, data_name
from headlens.ui.interview_kit import Kit

if TYPE_CHECKING:
    from headlens.claims.base import Claim
    from headlens.lens import Lens


def offer(kit: Kit, names: Iterable[str | None], place: str) -> None:
    """Below a text: offers to check what it says and what has no number on this model yet.

    Args:
        kit: of the page.
        names: claims of the text; None and repetitions do not count.
        place: where on the page, for the button's key.
    """
    wanted = [name for name in dict.fromkeys(names) if name is not None]
    if kit.lens is None or not wanted:
        return
    try:
        missing = _missing(wanted)
        _offer(kit.lens, missing, place)
    except HeadlensError as error:
        st.caption(words.plain(f"Nothing of this can be checked on {kit.lens.title}: {error}."))
        return
    _why_not(wanted, kit.lens)


def _missing(names: Sequence[str]) -> list[Claim]:
    from headlens.claims.registry import find_claims

    return [claim for claim in find_claims(names) if checked(claim.name) is None]


def _offer(lens: Lens, missing: Sequence[Claim], place: str) -> None:
    from headlens.claims.costs import seconds
    from headlens.cli.progress import clock

    data = data_name()
    key = _key(lens, data)
    if background.busy(ASKED):
        st.fragment(run_every=background.poll_seconds())(_progress)()
        return
    _state_of_work()
    cheap = [claim for claim in missing if not claim.costly]
    if cheap:
        guess = clock(max(1.0, seconds(context_for(lens.name, lens, lens.fingerprint, data), cheap)))
        one = f"“{cheap[0].statement.rstrip('.')}”" if len(cheap) == 1 else f"{len(cheap)} of these statements"
        st.button(
            words.plain(f"Check {one} on {lens.title} (about {guess})"),
            key=f"_iv_check_{place}",
            icon=":material/fact_check:",
            on_click=_start,
            args=(lens, data, (*key, tuple(claim.name for claim in cheap)), cheap),
        )
    if len(cheap) < len(missing):
        st.caption("What takes minutes to check is on the Claims page.")


def _key(lens: Lens, data: str) -> tuple[str, ...]:
    return ASKED, state.get("model"), lens.fingerprint, data


def _start(lens: Lens, data: str, key: tuple[object, ...], claims: Sequence[Claim]) -> None:
    background.leave(ASKED)
    background.start(ASKED, key, "Claims", engines.placed(lambda job: check_in(job, lens, data, claims)))


def _progress() -> None:
    """Progress and cancel; the page is drawn again when the work has ended."""
    _state_of_work()
    if not background.busy(ASKED) and not state.is_whole_page():
        state.rerun()


def _state_of_work() -> None:
    job = background.job_of(ASKED)
    if job is not None and job.status != "done":
        background.finished(ASKED, job.key)


def _why_not(names: Sequence[str], lens: Lens) -> None:
    for name in names:
        one = checked(name)
        if one is not None and one.finding.verdict == "not measurable":
            why = one.finding.sentence.rstrip(".")
            st.caption(words.plain(f"Not measurable on {lens.title}: “{one.claim.statement.rstrip('.')}”. {why}."))
