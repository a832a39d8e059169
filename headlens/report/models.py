"""The models of a report: the full one, its cut, and what became of that by training."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headlens.errors import HeadlensError, ModelError
from headlens.heads import HeadSet
from headlens.models.folders import read_sidecar
from headlens.pruning.full_model import source_name, taken_out
from headlens.pruning.names import found_from

if TYPE_CHECKING:
    from headlens.lens import Lens

FULL, CUT, RECOVERED = "full", "cut", "cut + recovered"
_NOT_TOLD = "does not say what it was cut from"


@dataclass(frozen=True)
class Subject:
    """One model.

    Attributes:
        role: ``full``, ``cut`` or ``cut + recovered``.
        name: MODEL.
        lens: it, opened.
        sidecar: its ``headlens.json``, or nothing.
    """

    role: str
    name: str
    lens: Lens
    sidecar: Mapping[str, Any] = field(default_factory=dict)

    @property
    def heads(self) -> int:
        """Query heads that are there."""
        return len(self.lens.topology.heads())


@dataclass(frozen=True)
class Subjects:
    """The models of a report.

    Attributes:
        full: the original.
        cut, recovered: what was made of it; None where there is no such model.
        off: heads that went.
    """

    full: Subject
    cut: Subject | None = None
    recovered: Subject | None = None
    off: HeadSet = field(default_factory=HeadSet)

    @property
    def all(self) -> list[Subject]:
        """Those that are there, the full one first."""
        return [one for one in (self.full, self.cut, self.recovered) if one is not None]

    @property
    def changed(self) -> Subject | None:
        """The last one that is not the full model."""
        return self.recovered or self.cut


def names_for(model: str, cut: str | None = None, recovered: str | None = None) -> tuple[str, str | None, str | None]:
    """What is meant by one, two or three names: a folder that HeadLens wrote says where it comes from.

    Args:
        model, cut, recovered: as on the command line.

    Returns:
        Names of the full model, of its cut and of the recovered cut (None where there is none).

    Raises:
        ModelError: a folder of a cut model that does not say what it was cut from.
    """
    if cut is None:
        sidecar = _sidecar(model)
        if not sidecar:
            return model, None, None
        full = source_name(sidecar, Path(model).expanduser())
        if full is None:
            raise ModelError(f"{model} {_NOT_TOLD}; give the full model first, then {model}")
        before = _before(model)
        if sidecar.get("kind") != "recovered":
            return full, model, None
        if before is None:
            raise ModelError(f"the cut that {model} was recovered from is not there; give the full model and it first")
        return full, before, model
    if recovered is None and _sidecar(cut).get("kind") == "recovered":
        before = _before(cut)
        if before is not None:
            return model, before, cut
    return model, cut, recovered


def _before(name: str) -> str | None:
    """The cut that a recovered model was made from, where it is still there."""
    told = _sidecar(name).get("recovered_from")
    if not isinstance(told, str):
        return None
    found = found_from(Path(name).expanduser(), told)
    return found if _sidecar(found) else None


def open_subjects(
    names: tuple[str, str | None, str | None],
    opener: Callable[[str], Lens],
    on_phase: Callable[[str], None] = lambda _: None,
) -> Subjects:
    """Opens the models.

    Args:
        names: from :func:`names_for`.
        opener: opens a MODEL.
        on_phase: called before each.

    Raises:
        HeadlensError: one cannot be opened, or is not made from the one before.
    """
    found = []
    for role, name in zip((FULL, CUT, RECOVERED), names, strict=True):
        if name is None:
            continue
        on_phase(f"opening {name}")
        found.append(Subject(role, name, opener(name), _sidecar(name)))
    by_role = {one.role: one for one in found}
    full, cut, recovered = by_role[FULL], by_role.get(CUT), by_role.get(RECOVERED)
    layers = [layer for site in full.lens.topology.sites for layer in site.layers]
    if len(found) == 1 and any(len(layer.heads) < layer.original for layer in layers):
        raise ModelError(f"{full.name} is a cut model that {_NOT_TOLD}; give the full model first, then {full.name}")
    off = HeadSet()
    for one in (cut, recovered):
        if one is None:
            continue
        if one.sidecar.get("kind") == "masked":
            raise HeadlensError(f"{one.name} is masked, not cut: give the folder of a model whose heads are taken out")
        gone = taken_out(full.lens, one.lens)
        if one is recovered and cut is not None and gone != off:
            raise ModelError(f"{one.name} has other heads than {cut.name}, so it is not made from it")
        off = gone
    return Subjects(full, cut, recovered, off)


def _sidecar(name: str) -> dict[str, Any]:
    """``headlens.json`` of a folder; nothing for any other name."""
    try:
        folder = Path(name).expanduser()
        return (read_sidecar(folder) or {}) if folder.is_dir() else {}
    except (OSError, ValueError, RuntimeError):  # a name too long, with a NUL character, of an unknown user
        return {}
