"""Measures models one after the other. Each finished figure is stored, so a run that was stopped goes on from there."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headlens.errors import HeadlensError, StoreError
from headlens.families.identity import identity, texts
from headlens.families.measures import MEASURES
from headlens.families.row import Row
from headlens.models import catalogue
from headlens.store import Store, unit_key

if TYPE_CHECKING:
    from headlens.lens import Lens

VERSION = 1
"""Raise it when a figure that is not a claim's changes."""
_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Options:
    """What decides the figures besides model and text.

    Attributes:
        tokens: of each half; None takes what suits the size of the model, as the claims do.
        seed: for everything random.
    """

    tokens: int | None = None
    seed: int = 0


@dataclass
class Watch:
    """Who is told what goes on.

    Attributes:
        on_progress: called with (done, total) in thousandths of the whole run's guessed cost; may raise to cancel.
        on_phase: called with what is at work.
        on_row: called with each finished row.
    """

    on_progress: Callable[[int, int], None] | None = None
    on_phase: Callable[[str], None] | None = None
    on_row: Callable[[Row], None] | None = None


@dataclass
class Found:
    """What a run has so far.

    Attributes:
        rows: by model, in the order asked.
        skipped: models that cannot be measured, with the reason.
    """

    rows: dict[str, Row] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)


def at_hand() -> list[str]:
    """Names of the catalogue's models that open without a network."""
    return [entry.name for entry in catalogue.entries() if entry.available]


def kept_row(name: str, options: Options, store: Store, told: str = "") -> Row | None:
    """The row of a model from the store, without opening the model; None where there is none, or no such model.

    ``told`` is what :func:`headlens.families.identity.texts` says, if that is known already.
    """
    try:
        found = store.meta(_key(name, options, told or texts()))
    except HeadlensError:
        return None
    return None if found is None else Row.from_json(found["row"])


def kept_rows(names: Sequence[str], options: Options, store: Store) -> dict[str, Row]:
    """The rows that are there, by model."""
    told = texts()
    found = {name: kept_row(name, options, store, told) for name in names}
    return {name: row for name, row in found.items() if row is not None}


def _key(name: str, options: Options, told: str) -> str:
    from headlens.claims.run import VERSION as CLAIMS

    return unit_key(
        kind="families",
        version=[VERSION, CLAIMS],
        rules=[measure.check.rule for measure in MEASURES],
        model=name,
        files=identity(name),
        texts=told,
        tokens=options.tokens,
        seed=options.seed,
    )


def measure_all(
    names: Sequence[str],
    options: Options | None = None,
    *,
    store: Store,
    resume: bool = True,
    watch: Watch | None = None,
    opener: Callable[[str], Lens] | None = None,
) -> Found:
    """Every model's row: from the store where it is there, else measured.

    Args:
        names: models.
        options: how.
        store: where finished figures are kept.
        resume: take finished work from there.
        watch: who is told.
        opener: opens a model; None takes :func:`headlens.open_model`.

    Raises:
        Cancelled: from ``on_progress``; what is done is in the store.
    """
    from headlens.families.cost import guess

    options, watch = options or Options(), watch or Watch()
    found = Found()
    kept = kept_rows(names, options, store) if resume else {}
    missing = [name for name in names if name not in kept]
    costs = {name: guess(catalogue.find(name), options.tokens) for name in missing}
    steps = _Steps(watch, sum(sum(each.values()) for each in costs.values()))
    for number, name in enumerate(missing, 1):
        steps.place = f"{number} of {len(missing)}, {name}"
        steps.phase("opening")
        try:
            row = _measure(name, options, store, resume, steps, costs[name], opener or _open)
        except HeadlensError as error:
            found.skipped[name] = str(error)
            continue
        kept[name] = row
        if watch.on_row is not None:
            watch.on_row(row)
    found.rows = {name: kept[name] for name in names if name in kept}
    return found


@dataclass
class _Steps:
    """Turns the steps of many phases into one progress: by guessed cost, in thousandths.

    Attributes:
        watch: who is told.
        total: guessed seconds of everything.
        place: which model is at work.
        spent, took: guessed and real seconds of the figures that are finished.
        cost, begun: guessed seconds of the figure at work, and when it began.
        clock: the time in seconds.
    """

    watch: Watch
    total: float
    place: str = ""
    spent: float = 0.0
    took: float = 0.0
    cost: float = 0.0
    begun: float = 0.0
    clock: Callable[[], float] = time.monotonic

    def phase(self, title: str) -> None:
        """Something else is at work."""
        if self.watch.on_phase is not None:
            self.watch.on_phase(f"{self.place}: {title}")
        self.tick(0, 1)

    def begin(self, cost: float) -> None:
        """A figure is begun."""
        self.cost, self.begun = cost, self.clock()

    def end(self) -> None:
        """The figure is finished."""
        self.spent, self.took = self.spent + self.cost, self.took + self.clock() - self.begun
        self.cost = 0.0
        self.tick(0, 1)

    def tick(self, _done: int, _total: int) -> None:
        """A step of a phase. How many more phases a figure has is not known, so within it the clock moves the whole."""
        if self.watch.on_progress is None:
            return
        inside = 0.0
        if self.cost:
            pace = max(1.0, self.took / self.spent) if self.spent else 1.0
            inside = min(0.95 * self.cost, (self.clock() - self.begun) / pace)
        self.watch.on_progress(round(1000 * (self.spent + inside) / self.total) if self.total else 0, 1000)


def _open(name: str) -> Lens:
    from headlens.lens import open_model

    return open_model(name)


def _measure(
    name: str,
    options: Options,
    store: Store,
    resume: bool,
    steps: _Steps,
    cost: Mapping[str, float],
    opener: Callable[[str], Lens],
) -> Row:
    from headlens.claims.examples import make_context
    from headlens.claims.run import check
    from headlens.families.make_row import make_row

    lens = opener(name)
    context = make_context(
        lens, tokens=options.tokens, seed=options.seed, store=store, resume=resume, on_progress=steps.tick
    )
    findings, seconds = {}, {}
    for measure in MEASURES:
        context.on_phase = lambda title, measure=measure: steps.phase(f"{measure.title.lower()}, {title}")
        steps.begin(cost[measure.name])
        context.phase("begin")
        checked = check(context, measure.check)
        findings[measure.name], seconds[measure.name] = checked.finding, checked.seconds
        steps.end()
    row = make_row(name, context, findings, seconds)
    try:
        store.put(_key(name, options, texts()), {}, {"row": row.to_json()})
    except StoreError as error:
        _logger.warning("%s", error)
    return Row.from_json(row.to_json())
