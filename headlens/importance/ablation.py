"""Exact leave-one-out: what the metric does when one head is off."""

from __future__ import annotations

from headlens.importance.base import Method, Raw, Request, empty
from headlens.lens import Lens
from headlens.sweep import Sweep, SweepSpec


class AblationMethod(Method):
    """Every head switched off in turn; the ground truth for the removal of a single head."""

    name = "ablation"
    title = "Leave one out (exact)"
    formula = "metric(head off) - metric(all on), sign turned where higher is better"
    source = "Michel, Levy, Neubig 2019, section 3.2 (zero); Wang et al. 2022 (mean); Chan et al. 2022 (resample)"
    needs = ("data",)
    signed = True
    cost = "one forward for each head, prefixes shared"

    def compute(self, lens: Lens, request: Request) -> Raw:
        """See the base class."""
        data = request.need_data()
        sweep = Sweep(
            lens,
            data,
            SweepSpec(request.metric, request.ablation, request.unit, request.seed),
            batch_size=request.batch_size,
            store=request.store,
            resume=request.resume,
            on_progress=request.on_progress,
        )
        numerator = empty(lens, request.unit, len(data))
        baseline = sweep.baseline()
        cached = 0
        for unit in sweep.units():
            numerator[unit.site][:, unit.layer, list(unit.columns)] = unit.effect
            cached += unit.cached
            if request.on_unit is not None:
                request.on_unit(unit)
        value = float(baseline.numerator.sum() / baseline.denominator.sum())
        denominator = dict.fromkeys(numerator, baseline.denominator)
        return Raw(numerator, denominator, baseline=value, seconds=sweep.seconds, cached=cached)
