"""The claims of the page as a background job, and what the interview page asks of it."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import streamlit as st

from headlens.interview.claims import set_source
from headlens.ui import background, cache, state

if TYPE_CHECKING:
    from headlens.claims.context import Context
    from headlens.claims.run import Checked
    from headlens.lens import Lens
    from headlens.ui.jobs import Job

SECTION = "claims"


@st.cache_resource(max_entries=8, show_spinner=False)
def context_for(name: str, _lens: Lens, fingerprint: str, data: str) -> Context:  # noqa: ARG001 - the key
    """The examples of a model and set, tokenised once for all sessions."""
    from headlens.claims.examples import make_context

    return make_context(_lens, data or None)


def data_name() -> str:
    """The chosen built-in set; empty (the model's default) for a text of the user's own, which has no halves."""
    chosen = state.get("data")
    return "" if chosen == state.OWN_DATA else chosen


def key_of(lens: Lens, data: str, costly: bool) -> Hashable:
    """Says what a run computes."""
    return SECTION, state.get("model"), lens.fingerprint, data, costly


def start(lens: Lens, data: str, costly: bool) -> None:
    """Checks all claims, cheapest first; what is in the store comes from there."""

    def work(job: Job) -> tuple[Checked, ...]:
        from headlens.claims.registry import REGISTRY
        from headlens.claims.run import check_all

        found: list[Checked] = []

        def done(one: Checked) -> None:
            found.append(one)
            job.publish(tuple(found))
            job.progress(0, 1)  # claims from the store report nothing, and the work can be cancelled between them

        number = iter(range(1, len(REGISTRY) + 1))
        context = replace(
            context_for(lens.name, lens, lens.fingerprint, data), store=cache.store(), on_progress=job.progress
        )
        check_all(
            context,
            REGISTRY,
            costly=costly,
            on_start=lambda claim: job.phase(f"{next(number)} of {len(REGISTRY)}: {claim.statement}"),
            on_found=done,
        )
        return tuple(found)

    background.start(SECTION, key_of(lens, data, costly), "Claims", work)


def found_so_far() -> Sequence[Checked]:
    """What this browser session has of the current model."""
    job = background.job_of(SECTION)
    if job is None or not isinstance(job.key, tuple) or job.key[1] != state.get("model"):
        return ()
    return job.result or job.partial or ()


def line(name: str) -> str | None:
    """A claim's verdict and number on the current model in one line; None while it is not measured."""
    from headlens.claims.export import number

    one = next((each for each in found_so_far() if each.claim.name == name), None)
    if one is None or one.finding.verdict == "not measurable":
        return None
    return f"{one.finding.verdict}, {number(one)}"


set_source(line)
