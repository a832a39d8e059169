"""A sweep on the worker of a cluster: what is sent, and what is made of it there."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from headlens.engine.base import Recipe
from headlens.engine.recipe import model_bytes, model_recipe, open_lens, pack_data, rows_at_once, unpack_data
from headlens.metrics import METRICS
from headlens.sweep import Part, Sweep, SweepSpec

if TYPE_CHECKING:
    from headlens.engine.worker import Note
    from headlens.lens import Lens


def recipe(sweep: Sweep) -> Recipe | None:
    """What a worker needs for the units of ``sweep``; None where only this process has the model or the metric."""
    model = model_recipe(sweep.lens)
    metric = sweep.spec.metric
    if model is None or not sweep.kind or METRICS.get(metric.name) is not metric:
        return None
    shared = {
        "model": model,
        "data": pack_data(sweep.data),
        "metric": metric.name,
        "ablation": sweep.spec.ablation,
        "unit": sweep.spec.unit,
        "seed": sweep.spec.seed,
        "batch_size": rows_at_once(sweep.batches),
    }
    return Recipe(sweep.kind, shared, model_bytes(sweep.lens), sweep.lens.device.type == "cuda")


class _Sweeping:
    """Does units of a sweep."""

    def __init__(self, cls: type[Sweep], shared: Mapping[str, Any], opened: dict[Any, Lens]) -> None:
        lens = open_lens(shared["model"], opened)
        spec = SweepSpec(METRICS[shared["metric"]], shared["ablation"], shared["unit"], shared["seed"])
        self.sweep = cls(lens, unpack_data(shared["data"], lens), spec, batch_size=shared["batch_size"])

    def do(self, order: Mapping[str, Any], note: Note) -> dict[str, np.ndarray]:
        """One part; notes are the head-example pairs that are done."""
        before = self.sweep.done
        self.sweep.on_progress = lambda done, _: note(done - before)
        return self.sweep.measure(Part(order["site"], order["layer"], tuple(order["batches"])))


worker_for = partial(_Sweeping, Sweep)


def one_left(shared: Mapping[str, Any], opened: dict[Any, Lens]) -> _Sweeping:
    """The same for the sweep that leaves one head of a layer on."""
    from headlens.pruning.all_but_one import AllButOneSweep

    return _Sweeping(AllButOneSweep, shared, opened)
