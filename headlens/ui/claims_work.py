"""The claims of the page as a background job, and what the interview page asks of it."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import streamlit as st

from headlens.errors import HeadlensError
from headlens.interview.claims import set_source
from headlens.ui import background, cache, engines, state

if TYPE_CHECKING:
    from headlens.claims.base import Claim
    from headlens.claims.context import Context
    from headlens.claims.run import Checked
    from headlens.lens import Lens
    from headlens.ui.jobs import Job

SECTION, ASKED = "claims", "iv_claims"
"""The claims page's own work, and what the interview page asks for."""


@st.cache_resource(max_entries=8, show_spinner=False)
def context_for(name: str, _lens: Lens, fingerprint: str, data: str) -> Context:  # noqa: ARG001 - the key
    """The examples of a model and set, tokenised once for all sessions."""
    from headlens.claims.examples import make_context

    return make_context(_lens, data or None)


cache.tied_to_models(context_for.clear)


def data_name() -> str:
    """The chosen built-in set; empty (the model's default) for a text of the user's own, which has no halves."""
    chosen = state.get("data")
    return "" if chosen == state.OWN_DATA else chosen


def key_of(lens: Lens, data: str, costly: bool) -> Hashable:
    """Says what a run computes."""
    return SECTION, state.get("model"), lens.fingerprint, data, costly


def start(lens: Lens, data: str, costly: bool, resume: bool = True) -> None:
    """Checks all claims, cheapest first; what is in the store comes from there, unless ``resume`` is False."""
    from headlens.claims.registry import REGISTRY

    key = key_of(lens, data, costly)
    if not resume:
        cache.jobs().drop(key)
    work = engines.placed(lambda job: check_in(job, lens, data, REGISTRY, costly, resume))
    background.start(SECTION, key, "Claims", work)


def check_in(
    job: Job, lens: Lens, data: str, claims: Sequence[Claim], costly: bool = False, resume: bool = True
) -> tuple[Checked, ...]:
    """The work of a job: checks claims and publishes each that is done."""
    from headlens.claims.run import check_all

    found: list[Checked] = []

    def done(one: Checked) -> None:
        found.append(one)
        job.publish(tuple(found))
        job.progress(0, 1)  # claims from the store report nothing, and the work can be cancelled between them

    number = iter(range(1, len(claims) + 1))
    context = replace(
        context_for(lens.name, lens, lens.fingerprint, data),
        store=cache.store(),
        resume=resume,
        on_progress=job.progress,
    )
    check_all(
        context,
        claims,
        costly=costly,
        on_start=lambda claim: job.phase(f"{next(number)} of {len(claims)}: {claim.statement.rstrip('.')}"),
        on_found=done,
    )
    return tuple(found)


def found_so_far(section: str = SECTION) -> Sequence[Checked]:
    """What this browser session has of the current model, from the work of a section."""
    job = background.job_of(section)
    if job is None or not isinstance(job.key, tuple) or job.key[1] != state.get("model"):
        return ()
    return job.result or job.partial or ()


def checked(name: str) -> Checked | None:
    """A claim as it was found on the current model: by this page's work, or earlier and kept; None if it was not."""
    from headlens.claims.registry import find_claims
    from headlens.claims.run import check, kept

    done = next((one for part in (SECTION, ASKED) for one in found_so_far(part) if one.claim.name == name), None)
    if done is not None or st.session_state.get("hl_opened") != state.get("model"):
        return done
    lens = cache.open_lens(state.get("model"))
    try:
        context = context_for(lens.name, lens, lens.fingerprint, data_name())
    except HeadlensError:  # no data for this model
        return None
    (claim,) = find_claims([name])
    return check(context, claim) if claim.of_the_lab else kept(replace(context, store=cache.store()), claim)


def line(name: str) -> str | None:
    """A claim's verdict and number on the current model in one line; None while it is not measured."""
    from headlens.claims.export import number

    one = checked(name)
    if one is None or one.finding.verdict == "not measurable":
        return None
    return f"{one.finding.verdict}, {number(one)}"


set_source(line)
