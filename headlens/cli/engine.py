"""``--engine``: connected before anything is opened, closed when the command ends, told in one line."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from headlens.cli.output import say
from headlens.engine import engine_for, using
from headlens.errors import HeadlensError
from headlens.paths import STORE_VARIABLE

if TYPE_CHECKING:
    from headlens.cli.progress import Reporter
    from headlens.engine import Engine, WorkerState


@contextmanager
def working_on(
    name: str,
    address: str | None,
    workers: int | None,
    reporter: Reporter,
    device_map: str | None = None,
) -> Iterator[Engine]:
    """Inside, units of work are done by the engine of the options.

    Raises:
        HeadlensError: Ray is not installed, no cluster answers, or results cannot be stored.
    """
    from headlens.store import Store

    if os.environ.get(STORE_VARIABLE):  # an unusual place: known to be writable before anything long begins
        Store().check()
    if name != "local":
        if device_map is not None:
            raise HeadlensError("--device-map is for a model in this process; with --engine ray leave it out")
        reporter.phase("connecting to the cluster")
    engine = engine_for(name, address, workers)
    try:
        with using(engine):
            yield engine
        if engine.remote:
            say(sentence(engine.workers()))
    finally:
        engine.close()


def sentence(workers: Sequence[WorkerState]) -> str:
    """What the workers have done."""
    if not workers:
        return "note: --engine ray had nothing to do: all is stored already, or this work is not cut into units"
    by_place = Counter(one.place or "?" for one in workers if one.done)
    places = ", ".join(f"{count} on {place}" for place, count in sorted(by_place.items()))
    lost = sum(one.standing == "lost" for one in workers)
    told = f"{sum(one.done for one in workers)} parts of the work by {sum(by_place.values())} workers ({places})"
    return f"{told}; {lost} lost, whose parts others did" if lost else told
