"""The exact sweep: leave one head (or KV group) out at a time, for every one, without computing any prefix twice.

The work is cut into units, one a (site, layer). For a unit the blocks below the layer are not computed again (their
output is replayed), and the layer's heads go through the rest of the model side by side in one batch. Every unit is
stored when it is done, so a kill loses at most one, and a second run takes what is there from the store. Units are
done by the current engine (:mod:`headlens.engine`): here, or by the workers of a cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from headlens.engine.base import Job, Recipe, current
from headlens.leave_one_out import LeaveOneOut
from headlens.run import LayerKey
from headlens.sweep_parts import BASELINE, Baseline, Part, SweepSpec, UnitResult, Whole

if TYPE_CHECKING:
    from headlens.data.encode import EncodedData
    from headlens.lens import Lens
    from headlens.store import Store

__all__ = ["Baseline", "Part", "Sweep", "SweepSpec", "UnitResult"]


class Sweep(LeaveOneOut, Job[Part, Any]):
    """An exact sweep over a model and encoded data. ``baseline()`` first, then iterate ``units()``.

    Args:
        lens: the model.
        data: tokenised examples.
        spec: what to measure.
        batch_size: examples a batch; None picks it from the length of the examples.
        store: where finished units are kept; None keeps nothing.
        resume: take finished units from the store.
        on_progress: called with (done, total) head-example pairs before each forward pass and after each portion of
            heads; raising :class:`headlens.errors.Cancelled` (or any exception) from it stops the sweep there.

    Attributes:
        kind: what the workers of a cluster know this sweep by; empty where only this process can do it.
        seconds: time of the computation so far, of all workers together.
    """

    kind: ClassVar[str] = "sweep"

    def __init__(
        self,
        lens: Lens,
        data: EncodedData,
        spec: SweepSpec,
        *,
        batch_size: int | None = None,
        store: Store | None = None,
        resume: bool = True,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> None:
        super().__init__(lens, data, spec, batch_size)
        self.store, self.resume, self.on_progress = store, resume, on_progress
        self.seconds = 0.0
        self.done = 0
        self.total = len(data) * sum(
            len(site.columns(layer, spec.unit)) for site in lens.topology.sites for layer in range(len(site.layers))
        )
        self._baseline: Baseline | None = None
        self._wholes: dict[LayerKey, Whole] = {}
        self._elsewhere: dict[Part, int] = {}

    def key(self, **what: Any) -> str:
        """Store key of one unit: everything that can change its numbers."""
        from headlens.store import unit_key

        return unit_key(
            kind="sweep",
            model=self.lens.fingerprint,
            dtype=str(self.lens.dtype),
            data=self.data.hash,
            metric=self.spec.metric.name,
            ablation=self.spec.ablation,
            seed=self.spec.seed if self.spec.ablation == "resample" else None,
            unit=self.spec.unit,
            **what,
        )

    def baseline(self) -> Baseline:
        """Sums of the metric with every head on; computed once."""
        found = self._baseline
        if found is None:
            (found,) = current().run(self, [BASELINE])
            self._baseline = found
        return found

    def units(self) -> Iterator[UnitResult]:
        """All units, from the store where they are there; the local engine goes layer by layer in each stack."""
        stacks: dict[str, list[str]] = {}
        for site in self.lens.sites:
            stacks.setdefault(site.stack, []).append(site.name)
        self.baseline()
        self._elsewhere.clear()
        yield from current().run(
            self,
            (
                Part(site, layer)
                for sites in stacks.values()
                for layer in range(len(self.lens.topology.site(sites[0]).layers))
                for site in sites
            ),
        )
        self._prefixes.clear()

    def known(self, unit: Part) -> Baseline | UnitResult | None:
        """See the base class."""
        found = self.store.get(self._key_of(unit)) if self.store and self.resume else None
        if found is None:
            return None
        if not unit.site:
            return Baseline(**found)
        columns = self.columns(unit)
        if found["effect"].shape != (len(self.data), len(columns)):
            return None
        self._report(len(columns) * len(self.data))
        return UnitResult(unit.site, unit.layer, columns, found["effect"], cached=True)

    def keep(self, unit: Part, found: dict[str, np.ndarray], seconds: float) -> Baseline | UnitResult | None:
        """See the base class; a layer is complete, and stored, when all its parts are there."""
        self.seconds += seconds
        place = (unit.site, unit.layer)
        whole = self._wholes.setdefault(place, Whole(len(self.data)))
        if not whole.add(self.rows(unit), found):
            return None
        del self._wholes[place]
        if not unit.site:
            result = Baseline(**whole.arrays)
            self._put(unit, whole.arrays)
            return result
        before, switched = self.baseline().numerator[:, None], whole.arrays["numerator"]
        effect = before - switched if self.spec.metric.higher_is_better else switched - before
        self._put(unit, {"effect": effect})
        return UnitResult(unit.site, unit.layer, self.columns(unit), effect, cached=False)

    def parts(self, unit: Part, count: int) -> Sequence[Part]:
        """See the base class: portions of the batches."""
        cut = np.array_split(np.arange(len(self.batches)), min(count, len(self.batches)))
        return [Part(unit.site, unit.layer, tuple(numbers.tolist())) for numbers in cut] if len(cut) > 1 else [unit]

    def home(self, unit: Part) -> Hashable:
        """See the base class: a worker keeps the prefix of the batches that it has seen."""
        return unit.batches

    def order(self, unit: Part) -> Mapping[str, Any]:
        """See the base class."""
        return {"site": unit.site, "layer": unit.layer, "batches": list(unit.batches)}

    def recipe(self) -> Recipe | None:
        """See the base class."""
        from headlens.sweep_worker import recipe

        return recipe(self)

    def told(self, unit: Part, note: int | None) -> None:
        """See the base class: head-example pairs that a worker has done of a part."""
        self._elsewhere[unit] = note or 0

    def finished(self, unit: Part, seconds: float) -> None:  # noqa: ARG002 - counted when kept
        """See the base class."""
        self._elsewhere.pop(unit, None)
        self.done += len(self.rows(unit)) * len(self.columns(unit))

    def look(self) -> None:
        """See the base class."""
        self._report(0)

    def _key_of(self, unit: Part) -> str:
        return self.key(site=unit.site, layer=unit.layer) if unit.site else self.key(part="baseline")

    def _put(self, unit: Part, arrays: Mapping[str, np.ndarray]) -> None:
        if self.store:
            self.store.put(self._key_of(unit), arrays)

    def _report(self, pairs: int) -> None:
        self.done += pairs
        if self.on_progress is not None:
            self.on_progress(self.done + sum(self._elsewhere.values()), self.total)
