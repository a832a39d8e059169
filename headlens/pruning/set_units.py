"""Head sets as units of work: one set on one portion of the examples, done here or on the worker of a cluster."""

from __future__ import annotations

import logging
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from headlens.engine.base import Job, Recipe
from headlens.engine.recipe import model_bytes, model_recipe, open_lens, pack_data, rows_at_once, unpack_data
from headlens.errors import StoreError
from headlens.heads import HeadSet

if TYPE_CHECKING:
    from headlens.data.encode import Batch
    from headlens.engine.worker import Note
    from headlens.lens import Lens
    from headlens.pruning.measure import Arrays, Portion, SetMeasure

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class SetUnit:
    """One head set on one portion (by its number) of the examples."""

    portion: int
    off: HeadSet


def rows_of(batches: Sequence[Batch]) -> tuple[int, ...]:
    """The examples of some batches, in their own order: batches of another size give the same portion."""
    return tuple(sorted(i for batch in batches for i in batch.indices))


class SetJob(Job[SetUnit, tuple[SetUnit, Any]]):
    """The units of one call of :class:`headlens.pruning.measure.SetMeasure`."""

    def __init__(self, owner: SetMeasure, portions: Sequence[Sequence[Batch]], sets: Sequence[HeadSet]) -> None:
        self.owner, self.portions, self.sets = owner, portions, sets
        self._rows = [rows_of(batches) for batches in portions]
        self._open: tuple[int, Portion] | None = None

    def units(self) -> Iterator[SetUnit]:
        """Portion by portion, so that what the clean model says is needed of one at a time."""
        return (SetUnit(number, off) for number in range(len(self.portions)) for off in self.sets)

    def rows(self, unit: SetUnit) -> list[int]:
        """The examples of a unit, ascending."""
        return list(self._rows[unit.portion])

    def known(self, unit: SetUnit) -> tuple[SetUnit, Any] | None:
        """See the base class."""
        owner = self.owner
        found = owner.store.get(owner.key(unit.off, self._rows[unit.portion])) if owner.store and owner.resume else None
        if found is None:
            return None
        owner.cached += 1
        owner.report(len(self._rows[unit.portion]))
        return unit, found

    def measure(self, unit: SetUnit) -> Arrays:
        """See the base class."""
        from headlens.pruning.measure import Portion

        if self._open is None or self._open[0] != unit.portion:
            self._open = unit.portion, Portion(self.owner, self.portions[unit.portion], self.sets)
        return self._open[1].arrays(unit.off)

    def keep(self, unit: SetUnit, found: Arrays, seconds: float) -> tuple[SetUnit, Any]:  # noqa: ARG002 - passes count
        """See the base class."""
        owner = self.owner
        if owner.store:
            try:
                owner.store.put(owner.key(unit.off, self._rows[unit.portion]), found)
            except StoreError as error:  # what is computed is worth more than its place on the disk
                _logger.warning("%s", error)
                owner.store = None
        return unit, found

    def finished(self, unit: SetUnit, seconds: float) -> None:
        """See the base class."""
        rows = len(self._rows[unit.portion])
        self.owner.seconds += seconds
        self.owner.passes += rows / len(self.owner.data)
        self.owner.report(rows)

    def look(self) -> None:
        """See the base class."""
        self.owner.report(0)

    def home(self, unit: SetUnit) -> Hashable:
        """See the base class: a worker keeps what the clean model says of the portion."""
        return unit.portion

    def order(self, unit: SetUnit) -> Mapping[str, Any]:
        """See the base class."""
        return {"portion": unit.portion, "off": self.owner.lens.topology.format(unit.off)}

    def recipe(self) -> Recipe | None:
        """See the base class."""
        owner = self.owner
        model = model_recipe(owner.lens)
        if model is None:
            return None
        shared = {
            "model": model,
            "data": pack_data(owner.data),
            "metric": owner.metric,
            "ablation": owner.ablation,
            "seed": owner.seed,
            "batch_size": rows_at_once([batch for batches in self.portions for batch in batches]),
            "sets": [owner.lens.topology.format(off) for off in self.sets],
        }
        return Recipe("head sets", shared, model_bytes(owner.lens), owner.lens.device.type == "cuda")


class _Setting:
    """Does units of head sets."""

    def __init__(self, shared: Mapping[str, Any], opened: dict[Any, Lens]) -> None:
        from headlens.pruning.measure import SetMeasure

        lens = open_lens(shared["model"], opened)
        options = {name: shared[name] for name in ("metric", "ablation", "seed", "batch_size")}
        measure = SetMeasure(lens, unpack_data(shared["data"], lens), **options)
        self.job = SetJob(measure, measure.portions(), [lens.topology.parse(text) for text in shared["sets"]])

    def do(self, order: Mapping[str, Any], note: Note) -> dict[str, np.ndarray]:  # noqa: ARG002 - units are short
        """One unit."""
        off = self.job.owner.lens.topology.parse(order["off"])
        return dict(self.job.measure(SetUnit(order["portion"], off)))


worker_for = _Setting
