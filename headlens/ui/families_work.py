"""The models side by side as a background job; finished rows come from the store that the command line shares."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING

from headlens.families.run import Options
from headlens.server import limits
from headlens.ui import background, cache, state

if TYPE_CHECKING:
    from headlens.families.row import Row
    from headlens.families.run import Found
    from headlens.ui.jobs import Job

SECTION = "families"
OPTIONS = Options()


def names() -> tuple[str, ...]:
    """Every model that opens here, and the one that the session has open (a cut one, say)."""
    from headlens.families.identity import folder_of
    from headlens.families.run import at_hand

    found = [name for name in at_hand() if limits.current().offers(name)]
    current = state.get("model")
    return tuple(found if current in found or folder_of(current) is None else [*found, current])


def rows(wanted: Sequence[str]) -> dict[str, Row]:
    """What is measured already, by model."""
    from headlens.families.run import kept_rows

    return kept_rows(wanted, OPTIONS, cache.store())


def seconds(missing: Sequence[str]) -> float:
    """A guess of what the missing models take."""
    from headlens.families.cost import guess
    from headlens.models import catalogue

    return sum(sum(guess(catalogue.find(name)).values()) for name in missing)


def key_of(wanted: Sequence[str]) -> Hashable:
    """Says what a run computes."""
    return SECTION, tuple(wanted)


def start(wanted: Sequence[str]) -> None:
    """Measures models one after the other."""

    def work(job: Job) -> Found:
        from headlens.families.run import Watch, measure_all

        done: dict[str, Row] = {}

        def phase(title: str) -> None:
            job.title = title

        def finished(row: Row) -> None:
            done[row.model] = row
            job.publish(dict(done))

        return measure_all(
            wanted,
            OPTIONS,
            store=cache.store(),
            watch=Watch(job.progress, phase, finished),
            opener=cache.open_lens,
        )

    background.leave(SECTION)
    cache.jobs().drop(key_of(wanted))
    background.start(SECTION, key_of(wanted), "Families", work)


def skipped() -> Mapping[str, str]:
    """Models that the latest run could not measure, with the reason."""
    job = background.job_of(SECTION)
    return {} if job is None or job.status != "done" else job.result.skipped
