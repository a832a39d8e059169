"""All heads of a layer but one: how far does each layer get with its best head alone? Michel et al. 2019, Tables 2, 3.

The best head is chosen on the score half and reported on the held-out half (picked on the same set, as in the paper's
tables, the figure flatters); a head drawn by the seed stands beside it as the control.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from headlens.errors import HeadlensError
from headlens.evaluate import Measured
from headlens.heads import HeadSet
from headlens.metrics import ratio
from headlens.pruning.measure import SetMeasure
from headlens.pruning.order import columns_of, off_set
from headlens.significance import Z_95
from headlens.sweep import Baseline, Part, Sweep, SweepSpec, UnitResult

if TYPE_CHECKING:
    import pandas as pd
    from torch import Tensor

    from headlens.data.encode import EncodedData
    from headlens.heads import Topology, Unit
    from headlens.lens import Lens
    from headlens.metrics import Metric
    from headlens.run import LayerKey
    from headlens.store import Store
    from headlens.switches import Ablation


class AllButOneSweep(Sweep):
    """The exact sweep with the switches turned round: for each column all the *other* heads of its layer are off.

    Attributes:
        places: the layers that are wanted; the others come with no columns.
    """

    kind = "all-but-one"
    places: frozenset[LayerKey] = frozenset()

    def key(self, **what: Any) -> str:
        """See the base class; the baseline is the same."""
        return super().key(**what) if what.get("part") == "baseline" else super().key(**what, kept="one")

    def known(self, unit: Part) -> Baseline | UnitResult | None:
        """See the base class; a layer that is not wanted is known to have nothing."""
        if not unit.site or (unit.site, unit.layer) in self.places:
            return super().known(unit)
        self._report(len(self.data) * len(self.columns(unit)))
        return UnitResult(unit.site, unit.layer, (), np.empty((len(self.data), 0)), cached=True)

    def _masks(self, place: LayerKey, columns: tuple[int, ...]) -> Tensor:
        return ~super()._masks(place, columns)


@dataclass(frozen=True)
class OneHeadLayer:
    """One layer with one head (or KV group) left.

    Attributes:
        site, layer: which.
        heads: heads (or groups) that the layer has.
        kept: label of the best one on the score half.
        score_cost: change for the worse there with only it on: the figure that is too good.
        result: the metric on the reported data with only it on.
        control: label of a head drawn by the seed.
        control_result: the same for that head.
        higher_is_better: of the metric.
    """

    site: str
    layer: int
    heads: int
    kept: str
    score_cost: float
    result: Measured
    control: str
    control_result: Measured
    higher_is_better: bool

    @property
    def cost(self) -> float:
        """Change for the worse on the reported data; negative: better with one head than with all."""
        return -self.result.delta if self.higher_is_better else self.result.delta

    @property
    def noticeable(self) -> bool | None:
        """Whether the change is more than 1.96 standard errors; None without an error."""
        return None if np.isnan(self.result.delta_sem) else abs(self.result.delta) > Z_95 * self.result.delta_sem


@dataclass(frozen=True)
class AllButOne:
    """All layers.

    Attributes:
        layers: those that have more than one head.
        metric, unit: what was measured, and what a column is.
        held_out: whether it is reported on other examples than it was chosen on.
        examples: on which it is reported.
    """

    layers: tuple[OneHeadLayer, ...]
    metric: str
    unit: Unit
    held_out: bool
    examples: int

    def sentence(self) -> str:
        """How many layers can do with one head, and which cannot."""
        if not self.layers:
            return "No layer has more than one head."
        what = "head" if self.unit == "head" else "KV group"
        hurt = [one for one in self.layers if one.noticeable and one.cost > 0]
        worst = max(self.layers, key=lambda one: one.cost)
        where = "held-out examples" if self.held_out else "the examples that the heads were chosen on"
        return (
            f"{len(self.layers) - len(hurt)} of {len(self.layers)} layers are not noticeably worse with one {what} "
            f"alone, one layer at a time ({where}, {self.metric}, 1.96 standard errors); hardest hit: "
            f"{worst.site} layer {worst.layer}, {worst.cost:+.3g} ± {worst.result.delta_sem:.2g} with {worst.kept}."
        )

    def to_frame(self) -> pd.DataFrame:
        """One row a layer; ``delta`` is with one head on against all on, ``sem`` its standard error."""
        import pandas as pd

        rows = [
            {
                "site": one.site,
                "layer": one.layer,
                "heads": one.heads,
                "kept": one.kept,
                self.metric: one.result.value,
                "delta": one.result.delta,
                "sem": one.result.delta_sem,
                "noticeable": one.noticeable,
                "delta_score_half": -one.score_cost if one.higher_is_better else one.score_cost,
                "control": one.control,
                "control_delta": one.control_result.delta,
                "control_sem": one.control_result.delta_sem,
            }
            for one in self.layers
        ]
        return pd.DataFrame(rows)


def all_but_one(
    lens: Lens,
    score_data: EncodedData,
    report_data: EncodedData,
    metric: Metric,
    *,
    unit: Unit = "head",
    sites: tuple[str, ...] | None = None,
    ablation: Ablation = "zero",
    seed: int = 0,
    batch_size: int | None = None,
    store: Store | None = None,
    resume: bool = True,
    on_progress: Callable[[int, int], None] | None = None,
    on_phase: Callable[[str], None] | None = None,
) -> AllButOne:
    """Every layer with its best head alone.

    Args:
        lens: the model.
        score_data: what the best head is chosen on, exactly: every head of every layer is tried.
        report_data: what is reported.
        metric: what decides and is reported.
        unit: keep one query head, or one KV group.
        sites: only these; None for all.
        ablation, seed, batch_size, store, resume, on_progress: as everywhere.
        on_phase: called with the title of each phase.

    Raises:
        HeadlensError: no layer with more than one head.
    """
    phase = on_phase or (lambda _: None)
    places = [place for place, columns in _layers(lens.topology, unit, sites).items() if len(columns) > 1]
    if not places:
        raise HeadlensError("no layer here has more than one head, so there is nothing to leave out")
    phase("one head alone, every head of every layer")
    spec = SweepSpec(metric, ablation, unit, seed)
    more: dict[str, Any] = {"store": store, "resume": resume, "on_progress": on_progress}
    sweep = AllButOneSweep(lens, score_data, spec, batch_size=batch_size, **more)
    sweep.places = frozenset(places)
    weight = sweep.baseline().denominator
    costs = {(u.site, u.layer): ratio(u.effect, weight)[0] for u in sweep.units() if (u.site, u.layer) in places}
    rng = np.random.default_rng(seed)
    chosen: dict[LayerKey, tuple[int, int]] = {}
    for place in places:
        columns = lens.topology.site(place[0]).columns(place[1], unit)
        best = columns[int(np.argmin(costs[place]))]
        others = [column for column in columns if column != best]
        chosen[place] = (best, int(rng.choice(others)))
    phase("the best heads on the reported examples")
    measure = SetMeasure(
        lens, report_data, metric=metric.name, ablation=ablation, seed=seed, batch_size=batch_size, **more
    )
    sets = {place: tuple(_others(lens.topology, place, one, unit) for one in pair) for place, pair in chosen.items()}
    results = measure.measure([off for pair in sets.values() for off in pair])
    layers = []
    for place, (best, control) in chosen.items():
        result, control_result = (results[off].evaluation.main for off in sets[place])
        labels = [lens.topology.label(*place, column, unit) for column in (best, control)]
        heads, cost = len(costs[place]), float(costs[place].min())
        layers.append(
            OneHeadLayer(*place, heads, labels[0], cost, result, labels[1], control_result, metric.higher_is_better)
        )
    held_out = score_data.hash != report_data.hash
    return AllButOne(tuple(layers), metric.name, unit, held_out, len(report_data))


def _layers(topology: Topology, unit: Unit, sites: tuple[str, ...] | None) -> dict[LayerKey, list[int]]:
    found: dict[LayerKey, list[int]] = {}
    for site, layer, column in columns_of(topology, unit, sites):
        found.setdefault((site, layer), []).append(column)
    return found


def _others(topology: Topology, place: LayerKey, kept: int, unit: Unit) -> HeadSet:
    """All heads of a layer but those of one column."""
    columns = topology.site(place[0]).columns(place[1], unit)
    return off_set(topology, [(*place, column) for column in columns if column != kept], unit)
