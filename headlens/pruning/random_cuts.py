"""The controls of a recovery: as many heads taken out at random, or none, and the same training afterwards."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from headlens.errors import HeadlensError, StoreError
from headlens.heads import HeadSet
from headlens.pruning.cut import cut
from headlens.pruning.order import columns_of, off_set, with_floor
from headlens.pruning.outcomes import Outcome
from headlens.pruning.recovery import Recovered, recover
from headlens.store import unit_key

if TYPE_CHECKING:
    from headlens.heads import Topology, Unit
    from headlens.lens import Lens
    from headlens.pruning.training_data import RecoveryData
    from headlens.store import Store

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Trained:
    """A control.

    Attributes:
        off: the heads that went.
        before, after: on the reported examples, before and after the training.
        best_step, steps: the step that was taken, and those that were made.
        seconds: of the training.
    """

    off: HeadSet
    before: Outcome
    after: Outcome
    best_step: int
    steps: int
    seconds: float


@dataclass(frozen=True)
class Control:
    """How the random cuts are drawn and recovered.

    Attributes:
        cuts: how many.
        full_too: train the full model the same way: what it gains is what the training gives without any cut.
        unit: single heads or KV groups, as the chosen cut was chosen; None: groups if it took nothing but whole ones.
        floor: heads (groups) that stay in every layer, as the chosen cut was chosen.
        max_tokens, batch_size, keep_in, resume: as for :func:`headlens.pruning.recovery.recover`.
        store: where finished random cuts are kept; None keeps nothing.
    """

    cuts: int = 0
    full_too: bool = False
    unit: Unit | None = None
    floor: int = 0
    max_tokens: int = 128
    batch_size: int = 8
    keep_in: Path | None = None
    resume: bool = True
    store: Store | None = None


def unit_of(topology: Topology, off: HeadSet) -> Unit:
    """``kv`` where ``off`` consists of whole groups of query heads that share a KV head, else ``head``."""
    groups = [off_set(topology, [column], "kv") for column in columns_of(topology, "kv")]
    touched = [group for group in groups if any(head in off for head in group)]
    whole = all(len(group) > 1 and all(head in off for head in group) for group in touched)
    return "kv" if touched and whole else "head"


def random_cut(topology: Topology, off: HeadSet, seed: int, *, unit: Unit = "head", floor: int = 0) -> HeadSet:
    """As many heads as ``off``, drawn at random from all heads of the full model; never just the same ones.

    Args:
        topology: of the full model.
        off: the chosen heads.
        seed: draws.
        unit: ``kv`` draws whole KV groups (as many as were chosen), if ``off`` consists of whole groups of one size.
        floor: so many heads (groups) stay in every layer.

    Raises:
        HeadlensError: there is no other set of that size.
    """
    columns = columns_of(topology, unit)
    members = [off_set(topology, [column], unit) for column in columns]
    count = sum(1 for heads in members if all(head in off for head in heads))
    if unit == "kv" and len(off_set(topology, columns[:count], unit)) != len(off):
        return random_cut(topology, off, seed, floor=floor)
    if len(with_floor(columns, floor)) < count:
        return random_cut(topology, off, seed, unit=unit)
    rng = np.random.default_rng([seed, 7])
    for _ in range(100):
        drawn = [columns[i] for i in rng.permutation(len(columns))]
        found = off_set(topology, with_floor(drawn, floor)[:count], unit)
        if found != off and len(found) == len(off):
            return found
    raise HeadlensError(f"there is no other way to take {len(off)} heads out of this model, so no random cut")


def trained_the_same_way(
    recovered: Recovered,
    data: RecoveryData,
    full: Lens,
    off: HeadSet,
    control: Control,
    on_progress: Callable[[int, int], None] | None = None,
) -> Trained:
    """Another cut (or, with no head off, the full model) before and after the same training, from the store if there.

    Args:
        recovered: the chosen cut's training, which is repeated.
        data: what that was made with.
        full: the model that was cut; it stays as it is.
        off: the heads that go.
        control: how.
        on_progress: called with (done, total) of the current phase; may raise Cancelled.
    """
    from headlens.lens import Lens

    key = unit_key(
        kind="trained the same way",
        full=full.fingerprint,
        off=full.topology.format(off),
        data=[recovered.data[name] for name in ("train_hash", "watch_hash", "report_hash")],
        spec=recovered.spec.decides(),
        rate=recovered.rate,
    )
    kept = _from_store(control, key, full.task)
    if kept is None:
        found = recover(
            Lens(cut(full, off).loaded),
            data,
            recovered.spec,
            full=full,
            max_tokens=control.max_tokens,
            batch_size=control.batch_size,
            resume=control.resume,
            keep_in=control.keep_in,
            on_progress=on_progress,
        )
        facts = {"best_step": found.state.best_step, "steps": found.state.step, "seconds": found.state.seconds}
        kept = (found.before, found.after, facts)
        _to_store(control, key, *kept)
    before, after, facts = kept
    return Trained(off, before, after, facts["best_step"], facts["steps"], facts["seconds"])


def _from_store(control: Control, key: str, task: str) -> tuple[Outcome, Outcome, Mapping[str, Any]] | None:
    if control.store is None or not control.resume:
        return None
    arrays, facts = control.store.get(key), control.store.meta(key)
    if arrays is None or facts is None:
        return None

    def part(name: str) -> Outcome:
        prefix = f"{name}|"
        return Outcome(task, {key.removeprefix(prefix): a for key, a in arrays.items() if key.startswith(prefix)})

    return part("before"), part("after"), facts


def _to_store(control: Control, key: str, before: Outcome, after: Outcome, facts: Mapping[str, Any]) -> None:
    if control.store is None:
        return
    parts = {"before": before.sums, "after": after.sums}
    arrays = {f"{part}|{name}": array for part, sums in parts.items() for name, array in sums.items()}
    try:
        control.store.put(key, arrays, facts)
    except StoreError as error:  # the work is done: losing it for want of a place to keep it helps nobody
        _logger.warning("%s", error)
