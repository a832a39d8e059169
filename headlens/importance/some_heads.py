"""Exact scores of a few chosen heads, kept one by one."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np

from headlens.errors import StoreError
from headlens.importance.base import Request
from headlens.leave_one_out import LeaveOneOut
from headlens.lens import Lens
from headlens.metrics import ratio
from headlens.sweep import Sweep
from headlens.sweep_parts import BASELINE, Baseline, Part, SweepSpec, UnitResult

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from headlens.run import LayerKey


class SomeHeads(LeaveOneOut):
    """Measures heads as a full sweep does, but only those that are asked for.

    Args:
        lens: the model.
        request: data, metric, unit and store.
        columns: (site, layer, column) of every head; masks are in this order.

    Attributes:
        before: sums with every head on.
        sem: standard errors of what was measured so far, ``[heads]``.
        rounds: passes that were made for the prefixes.
        cached: heads that came from the store.
    """

    def __init__(self, lens: Lens, request: Request, columns: Sequence[tuple[str, int, int]]) -> None:
        spec = SweepSpec(request.metric, request.ablation, request.unit, request.seed)
        super().__init__(lens, request.need_data(), spec, request.batch_size)
        self.request, self.all = request, list(columns)
        self._position = {column: number for number, column in enumerate(self.all)}
        self._wanted: dict[LayerKey, tuple[int, ...]] = {}
        self._sweep = Sweep(
            lens, self.data, spec, batch_size=request.batch_size, store=request.store, resume=request.resume
        )
        self.sem = np.full(len(self.all), np.nan)
        self.rounds = self.cached = self._done = self._total = 0
        found = self._sweep.known(BASELINE)
        if not isinstance(found, Baseline):
            found = Baseline(**self.measure(BASELINE))
        self.before = found

    @property
    def baseline_value(self) -> float:
        """The metric with every head on."""
        return float(self.before.numerator.sum() / self.before.denominator.sum())

    def swept(self) -> np.ndarray:
        """Heads that a full sweep has left in the store, bool ``[heads]``."""
        places = {(site, layer) for site, layer, _ in self.all}
        there = {place for place in places if isinstance(self._sweep.known(Part(*place)), UnitResult)}
        return np.array([(site, layer) in there for site, layer, _ in self.all])

    def columns(self, unit: Part) -> tuple[int, ...]:
        """The wanted columns of a layer."""
        return self._wanted.get((unit.site, unit.layer), ())

    def scores(self, which: np.ndarray) -> np.ndarray:
        """Exact scores of the heads in a mask ``[heads]``; NaN for all others, ``[heads]``.

        Positive: the loss rises when the head is off.
        """
        found = np.full(len(self.all), np.nan)
        by_layer: dict[LayerKey, list[int]] = {}
        for number in np.flatnonzero(which):
            site, layer, column = self.all[number]
            by_layer.setdefault((site, layer), []).append(column)
        self._done, self._total = 0, int(which.sum()) * len(self.data)
        measured = False
        for place in self._in_order(by_layer):
            effects = self._kept(place, by_layer[place])
            rest = tuple(column for column in by_layer[place] if column not in effects)
            if rest:
                measured = True
                effects |= self._measured(place, rest)
            for column, effect in effects.items():
                number = self._position[*place, column]
                value, sem = ratio(effect[:, None], self.before.denominator)
                found[number], self.sem[number] = value[0], sem[0]
        self.rounds += measured
        return found

    def _in_order(self, places: Collection[LayerKey]) -> list[LayerKey]:
        """Up each stack, so that a prefix is computed once."""
        stacks = {site.name: site.stack for site in self.lens.sites}
        names = list(stacks.values())
        return sorted(places, key=lambda place: (names.index(stacks[place[0]]), place[1], place[0]))

    def _kept(self, place: LayerKey, columns: list[int]) -> dict[int, np.ndarray]:
        """Effects ``[examples]`` that the store has, from a full sweep or from here."""
        store = self.request.store
        if store is None or not self.request.resume:
            return {}
        whole = self._sweep.known(Part(*place))
        effects: dict[int, np.ndarray] = {}
        for column in columns:
            if isinstance(whole, UnitResult):
                effects[column] = whole.effect[:, whole.columns.index(column)]
            elif (found := store.get(self._key(place, column))) is not None and len(found["effect"]) == len(self.data):
                effects[column] = found["effect"]
        self.cached += len(effects)
        self._report(len(effects) * len(self.data))
        return effects

    def _measured(self, place: LayerKey, columns: tuple[int, ...]) -> dict[int, np.ndarray]:
        self._wanted = {place: columns}
        switched = self.measure(Part(*place))["numerator"]
        found = {column: switched[:, at] - self.before.numerator for at, column in enumerate(columns)}
        if self.request.store is not None:
            with suppress(StoreError):  # the numbers are there: losing them for want of a place helps nobody
                for column, effect in found.items():
                    self.request.store.put(self._key(place, column), {"effect": effect})
        return found

    def _key(self, place: LayerKey, column: int) -> str:
        return self._sweep.key(site=place[0], layer=place[1], column=column)

    def _report(self, pairs: int) -> None:
        self._done += pairs
        if self.request.on_progress is not None and self._total:
            self.request.on_progress(self._done, self._total)
