"""Scores of a model some of whose heads are off already: what re-scoring at every step and greedy pruning need."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from headlens.errors import HeadlensError
from headlens.importance.base import Raw, empty
from headlens.importance.score import from_raw, score
from headlens.lens import Lens
from headlens.pruning.measure import SetMeasure
from headlens.pruning.order import columns_of, off_set
from headlens.run import Edit, LayerKey, Run
from headlens.switches import Ablation, gather, off_mask

if TYPE_CHECKING:
    from torch import Tensor

    from headlens.heads import HeadSet
    from headlens.importance import Method, Request
    from headlens.importance.score import Normalize
    from headlens.scores import HeadScores


class SwitchedLens(Lens):
    """A lens in whose every forward pass some heads are off: methods then score the others without knowing.

    It shares the model with the lens that it is made of; that lens goes on showing all heads. Heads that are off keep
    their columns (their ``z`` is still computed), so whoever ranks leaves them out.

    Args:
        lens: the model.
        off: heads that are off in it.
        values: what takes the place of their ``z`` by layer, ``[heads, d_head]``; None for zero.

    Attributes:
        off_here: heads that are off in it.
        zero: whether nothing takes the place of their ``z``.
    """

    def __init__(self, lens: Lens, off: HeadSet, values: Mapping[LayerKey, Tensor] | None = None) -> None:
        self.__dict__.update(lens.__dict__)
        self.off_here, self.zero = off, values is None
        kind = "zero"
        if values is not None:
            digest = hashlib.sha256()
            for place in sorted(values):
                digest.update(repr(place).encode() + values[place].double().cpu().numpy().tobytes())
            kind = digest.hexdigest()
        what = f"{lens.fingerprint}|off {lens.topology.format(off)}|{kind}"
        self.__dict__["fingerprint"] = hashlib.sha256(what.encode()).hexdigest()
        self._base = {
            place: Edit(off=mask.to(lens.device), value=None if values is None else values[place])
            for place, mask in off_mask(lens.topology, off).items()
        }

    def forward(self, inputs: Mapping[str, Tensor], run: Run | None = None) -> Any:
        """See the base class; what ``run`` switches off is off besides."""
        run = run or Run()
        places = {**self._base, **run.edits}
        edits = {place: _both(self._base.get(place), run.edits.get(place)) for place in places}
        return super().forward(inputs, replace(run, edits=edits))


def _both(base: Edit | None, more: Edit | None) -> Edit:
    """One edit that does both; where both name a head, ``more`` decides what takes its place."""
    if base is None or more is None:
        found = base or more
        assert found is not None
        return found
    assert base.off is not None
    if more.off is None:
        return replace(base, gate=more.gate)
    if base.value is None and more.value is None:
        return Edit(off=base.off | more.off, gate=more.gate)
    zero = base.off.new_zeros((), dtype=(base.value if base.value is not None else more.value).dtype)  # type: ignore[union-attr]
    first, second = (zero if edit.value is None else edit.value for edit in (base, more))
    return Edit(base.off | more.off, second.where(more.off[:, None, :, None], first), more.gate)


def score_without(
    lens: Lens, method: Method, request: Request, off: HeadSet, *, normalize: Normalize = "none"
) -> HeadScores:
    """Scores of the heads that are still on while ``off`` is off; columns that are off hold numbers without meaning.

    The exact method compares with the state in which ``off`` is off: the score of a head is what its removal costs on
    top. Drift is always measured from the model with every head on.

    Args:
        lens, method, request, normalize: see :func:`headlens.importance.score.score`.
        off: heads that are off.

    Raises:
        HeadlensError: a method that cannot do this with ``resample`` (it needs one constant for a head).
    """
    if not len(off):
        return score(lens, method, request, normalize=normalize)
    if method.name == "ablation" and (request.ablation != "zero" or request.metric.needs_reference):
        return _one_by_one(lens, method, request, off, normalize)
    values = _values(lens, request, off) if method.needs else None
    return score(SwitchedLens(lens, off, values), method, request, normalize=normalize)


def _values(lens: Lens, request: Request, off: HeadSet) -> Mapping[LayerKey, Tensor] | None:
    """What the heads that are off write: nothing, or their mean over the data with every head on."""
    ablation: Ablation = request.ablation
    if ablation == "zero":
        return None
    if ablation == "resample":
        raise HeadlensError("re-scoring under --ablation resample works with --method ablation only; take zero or mean")
    return gather(lens, request.need_data(), ablation, list(off.by_layer())).means


def _one_by_one(lens: Lens, method: Method, request: Request, off: HeadSet, normalize: Normalize) -> HeadScores:
    """Leave-one-out on top of ``off``, one set after another: for replacements and drift, which refer to all-on."""
    data = request.need_data()
    measure = SetMeasure(
        lens,
        data,
        metric=request.metric.name,
        ablation=request.ablation,
        seed=request.seed,
        store=request.store,
        resume=request.resume,
        on_progress=request.on_progress,
    )
    columns = columns_of(lens.topology, request.unit)
    sets = {column: off | off_set(lens.topology, [column], request.unit) for column in columns}
    found = measure.sums([off, *sets.values()])
    numerator = empty(lens, request.unit, len(data))
    name = request.metric.name
    base = found[off]
    for (site, layer, column), heads in sets.items():
        rise = found[heads][f"numerator/{name}"] - base[f"numerator/{name}"]
        numerator[site][:, layer, column] = -rise if request.metric.higher_is_better else rise
    weight = base[f"weight/{name}"]
    value = float(base[f"numerator/{name}"].sum() / weight.sum())
    raw = Raw(numerator, dict.fromkeys(numerator, weight), baseline=value, seconds=measure.seconds)
    return from_raw(lens, method, request, raw, normalize=normalize)
