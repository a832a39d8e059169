"""The local engine: one unit after the other, in this process, with the model that is open already."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

from headlens.engine.base import Engine, Job, Result, Unit


class LocalEngine(Engine):
    """Needs nothing; progress and cancelling are the job's own, between its forward passes."""

    name = "local"

    def run(self, job: Job[Unit, Result], units: Iterable[Unit]) -> Iterator[Result]:
        """See the base class; units come in their order."""
        for unit in units:
            found = job.known(unit)
            if found is None:
                start = time.perf_counter()
                measured = job.measure(unit)
                found = job.keep(unit, measured, time.perf_counter() - start)
            assert found is not None  # a whole unit has no missing parts
            yield found
