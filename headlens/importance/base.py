"""What an importance method is, and how its per-example contributions become scores."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from headlens.errors import HeadlensError

if TYPE_CHECKING:
    from headlens.data.encode import EncodedData
    from headlens.heads import Unit
    from headlens.lens import Lens
    from headlens.metrics import Metric
    from headlens.store import Store
    from headlens.sweep import UnitResult
    from headlens.switches import Ablation

Need = Literal["data", "labels", "gradients", "patterns"]


@dataclass(frozen=True)
class Request:
    """What is asked of a method. Which fields matter is up to the method.

    Attributes:
        metric: what is measured.
        data: tokenised examples; None for methods that need none.
        ablation: what replaces a head that is off.
        unit: score query heads or whole KV groups.
        signed: keep the sign of first-order scores instead of the absolute value.
        seed: for everything random.
        batch_size: examples a forward pass; None lets the method choose.
        store, resume: where finished work is kept, and whether to take it from there.
        on_progress: called with (done, total); may raise to cancel.
        on_unit: called with each finished layer of an exact sweep.
    """

    metric: Metric
    data: EncodedData | None = None
    ablation: Ablation = "zero"
    unit: Unit = "head"
    signed: bool = False
    seed: int = 0
    batch_size: int | None = None
    store: Store | None = None
    resume: bool = True
    on_progress: Callable[[int, int], None] | None = None
    on_unit: Callable[[UnitResult], None] | None = None

    def need_data(self) -> EncodedData:
        """The data; raises HeadlensError when there are none."""
        if self.data is None:
            raise HeadlensError("this method needs data; give some with --data")
        return self.data


@dataclass(frozen=True)
class Raw:
    """What a method computes.

    Either contributions of each example (then the score is their sum over the sum of ``denominator``, with a standard
    error and a split-half reliability), or values that no example is behind.

    Attributes:
        numerator: by site ``[examples, layer, column]``.
        denominator: by site ``[examples]``.
        values: by site ``[layer, column]``, for methods without data.
        baseline: the metric with every head on, or None.
        seconds: time of the computation alone.
        cached: units taken from the store.
    """

    numerator: Mapping[str, np.ndarray] = field(default_factory=dict)
    denominator: Mapping[str, np.ndarray] = field(default_factory=dict)
    values: Mapping[str, np.ndarray] = field(default_factory=dict)
    baseline: float | None = None
    seconds: float = 0.0
    cached: int = 0


class Method(ABC):
    """An importance method: one file, one line in the registry, one test.

    Larger scores mean "keep this head".

    Attributes:
        name: as on the command line.
        title: as shown.
        formula: in plain text.
        source: who proposed it.
        needs: what it needs besides the model.
        signed: whether negative scores (harmful heads) can come out.
        cost: in forward passes over the data.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    formula: ClassVar[str]
    source: ClassVar[str]
    needs: ClassVar[tuple[Need, ...]] = ()
    signed: ClassVar[bool] = False
    cost: ClassVar[str] = "0"

    @abstractmethod
    def compute(self, lens: Lens, request: Request) -> Raw:
        """Computes the contributions; raises HeadlensError where the method does not apply."""

    def describe(self) -> dict[str, object]:
        """One row of ``headlens methods``."""
        return {
            "name": self.name,
            "title": self.title,
            "formula": self.formula,
            "needs": list(self.needs),
            "signed": self.signed,
            "cost": self.cost,
            "source": self.source,
        }


def empty(lens: Lens, unit: Unit, examples: int | None = None) -> dict[str, np.ndarray]:
    """NaN arrays of the right shape by site, ``[layer, column]`` or ``[examples, layer, column]``."""
    found = {}
    for site in lens.topology.sites:
        shape = (len(site.layers), site.width(unit))
        found[site.name] = np.full(shape if examples is None else (examples, *shape), np.nan)
    return found


def merge_groups(
    lens: Lens, per_head: Mapping[str, np.ndarray], how: Callable[..., np.ndarray]
) -> dict[str, np.ndarray]:
    """Turns arrays ``[..., layer, head]`` into ``[..., layer, group]`` with ``how(array, axis=-1)`` over members."""
    found = {}
    for site in lens.topology.sites:
        values = per_head[site.name]
        groups = np.full((*values.shape[:-1], site.width("kv")), np.nan)
        for layer, shape in enumerate(site.layers):
            for group in shape.groups:
                groups[..., layer, group] = how(values[..., layer, list(shape.members(group))], axis=-1)
        found[site.name] = groups
    return found
