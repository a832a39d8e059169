"""Role scores that outlive the program: one unit in the store for each kind of data that detectors look at."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

import numpy as np

from headlens.errors import StoreError
from headlens.roles.base import Input
from headlens.roles.registry import DETECTORS
from headlens.roles.score import RoleScores, roles
from headlens.store import unit_key

if TYPE_CHECKING:
    from headlens.data.encode import EncodedData
    from headlens.lens import Lens
    from headlens.store import Store

VERSION = 1
"""Raise it when a formula, or the data that is made for detectors, changes."""
_logger = logging.getLogger(__name__)


def stored_roles(
    lens: Lens,
    data: EncodedData | None,
    *,
    detectors: Collection[str] | None = None,
    seed: int = 0,
    store: Store | None = None,
    resume: bool = True,
    on_progress: Callable[[int, int], None] | None = None,
) -> RoleScores:
    """What :func:`headlens.roles.roles` gives, taken from the store where it is there.

    Args:
        lens, data, detectors, seed: as there.
        store: where finished units are kept; None keeps nothing.
        resume: take finished units from the store.
        on_progress: called with (done, total) in thousandths of the units; may raise to cancel.
    """
    chosen = [name for name, each in DETECTORS.items() if (not each.costly if detectors is None else name in detectors)]
    inputs: list[Input] = list(dict.fromkeys(DETECTORS[name].looks_at for name in chosen))
    parts: list[RoleScores] = []
    for number, looks_at in enumerate(inputs):

        def step(done: int, total: int, number: int = number) -> None:
            if on_progress is not None:
                on_progress(round(1000 * (number + done / max(1, total))), 1000 * len(inputs))

        names = [name for name in chosen if DETECTORS[name].looks_at == looks_at]
        parts.append(_unit(lens, data, looks_at, names, seed, store, resume, step))
        step(1, 1)
    return merged(lens, parts, seed)


def merged(lens: Lens, parts: Collection[RoleScores], seed: int = 0) -> RoleScores:
    """Scores of different roles of one model as one, in the registry's order."""
    kinds: list[dict[str, Any]] = [{}, {}, {}]
    for part in parts:
        for kind, found in zip(kinds, (part.scores, part.examples, part.details), strict=True):
            kind.update(found)
    scores, examples, details = ({name: kind[name] for name in DETECTORS if name in kind} for kind in kinds)
    return RoleScores(lens.topology, scores, examples, seed, details)


def _unit(
    lens: Lens,
    data: EncodedData | None,
    looks_at: Input,
    names: list[str],
    seed: int,
    store: Store | None,
    resume: bool,
    on_progress: Callable[[int, int], None],
) -> RoleScores:
    """The roles that look at one kind of data."""
    given = data if looks_at == "text" else None
    key = unit_key(
        kind="roles",
        version=VERSION,
        model=lens.fingerprint,
        dtype=str(lens.dtype),
        data=None if given is None else given.hash,
        formulas={name: DETECTORS[name].formula for name in names},
        seed=seed,
    )
    if store is not None and resume:
        arrays, meta = store.get(key), store.meta(key)
        if arrays is not None and meta is not None:
            return _read(lens, arrays, meta, seed)
    found = roles(lens, given, detectors=names, seed=seed, on_progress=on_progress)
    if store is not None:
        try:
            store.put(key, *_written(found))
        except StoreError as error:
            _logger.warning("%s", error)
    return found


def _written(found: RoleScores) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    arrays = {f"score/{role}/{site}": array for role, sites in found.scores.items() for site, array in sites.items()}
    arrays |= {
        f"example/{role}/{site}": array for role, sites in found.examples.items() for site, array in sites.items()
    }
    details = {
        role: {site: [[str(text or "") for text in row] for row in array] for site, array in sites.items()}
        for role, sites in found.details.items()
    }
    return arrays, {"details": details}


def _read(lens: Lens, arrays: dict[str, np.ndarray], meta: dict[str, Any], seed: int) -> RoleScores:
    kinds: dict[str, dict[str, dict[str, np.ndarray]]] = {"score": {}, "example": {}}
    for name, array in arrays.items():
        kind, role, site = name.split("/")
        kinds[kind].setdefault(role, {})[site] = array
    details = {
        role: {site: np.array(rows, dtype=object) for site, rows in sites.items()}
        for role, sites in meta["details"].items()
    }
    return merged(lens, [RoleScores(lens.topology, kinds["score"], kinds["example"], seed, details)], seed)
