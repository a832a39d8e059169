"""Scores by several methods: what is computed already, and computing what is not."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from headlens.errors import Cancelled, HeadlensError
from headlens.ui import cache, methods
from headlens.ui.compute import Ask, keep, request_for, score_job, scores_of
from headlens.ui.jobs import Job

if TYPE_CHECKING:
    from headlens.data.encode import EncodedData
    from headlens.lens import Lens
    from headlens.scores import HeadScores


def available(lens: Lens, data: EncodedData, ask: Ask) -> dict[str, HeadScores]:
    """Scores by every method that is computed already for this model, text and unit, by method."""
    _from_store(lens, data, ask)
    found = {}
    for method in methods.COMPARED:
        try:
            scores = scores_of(lens, data, replace(ask, method=method))
        except HeadlensError:  # it does not apply to this model
            continue
        if scores is not None:
            found[method] = scores
    return found


def _from_store(lens: Lens, data: EncodedData, ask: Ask) -> None:
    """Takes what earlier runs of the program have computed, once."""
    from headlens.importance import method_for
    from headlens.importance.score import from_raw, stored

    jobs = cache.jobs()
    seen = ("from store", replace(ask.base, method="", ablation="", model=""))
    if jobs.get(seen) is not None:
        return
    for name in methods.COMPARED:
        one = replace(ask, method=name).base
        request = request_for(lens, data, one)
        raw = stored(lens, method_for(name), request) if jobs.get(one.key) is None else None
        if raw is not None:
            jobs.put(one.key, name, keep(one, raw, from_raw(lens, method_for(name), request, raw)))
    jobs.put(seen, "from store", True)


def scores_together(lens: Lens, data: EncodedData, asks: Sequence[Ask], viewer: str) -> Job:
    """A job that runs the jobs of several methods one after the other."""

    def work(job: Job) -> None:
        for number, ask in enumerate(asks):
            one = score_job(lens, data, ask, viewer)
            try:
                with job.aside():  # the one that is waited for needs a turn
                    while one.running:
                        one.look(viewer)
                        job.progress(int(1000 * (number + one.fraction)), 1000 * len(asks))
                        time.sleep(0.1)
            except Cancelled:
                one.leave(viewer)
                raise

    key = ("together", tuple(ask.base.key for ask in asks))
    return cache.jobs().start(key, f"Scores of {lens.title} by {len(asks)} methods", work, viewer)
