"""Heads before training: any model's architecture with random weights, compared head by head."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from headlens.errors import ModelError
from headlens.lab.similarity import LayerSimilarity, similarity
from headlens.lens import Lens
from headlens.metrics import at_least_float32
from headlens.models.families.base import output_weight
from headlens.run import Run

if TYPE_CHECKING:
    from torch import Tensor

    from headlens.data.encode import EncodedData
    from headlens.lab.pruning import Bench

MAX_PARAMETERS = 1_000_000_000
POSITIONS = 384
"""Positions that heads are compared on; far more than a head is wide, so that chance gives little."""


def with_random_weights(lens: Lens, seed: int) -> Lens:
    """The same architecture with the weights that its own class draws before training.

    Args:
        lens: whose architecture; it is left as it is.
        seed: of the weights. Global random state is not touched.

    Raises:
        ModelError: a cut model (its config cannot say which heads it had), or one too large.
    """
    from headlens.models.loading import Loaded
    from headlens.models.quiet import quiet
    from headlens.models.sizes import check_fits, required_bytes

    if any(len(shape.heads) < shape.original for site in lens.topology.sites for shape in site.layers):
        raise ModelError(f"{lens.name} is a cut model; choose the model that it was cut from")
    if lens.parameters > MAX_PARAMETERS:
        raise ModelError(f"{lens.name} has {lens.parameters:,} parameters; choose one of at most {MAX_PARAMETERS:,}")
    check_fits(lens.name, required_bytes(lens.parameters, torch.float32))
    with quiet(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = type(lens.model)(lens.model.config)
    model = model.float()
    name = f"{lens.name} (random weights, seed {seed})"
    loaded = Loaded(
        model=model,
        tokenizer=lens.tokenizer,
        processor=lens.processor,
        config=model.config,
        task=lens.task,  # type: ignore[arg-type]
        name=name,
        title=name,
        source=lens.source,  # type: ignore[arg-type]
        path=Path(),
        notes=(),
        sidecar=None,
    )
    return Lens(loaded)


def head_similarity(
    lens: Lens, data: EncodedData, *, on_progress: Callable[[int, int], None] | None = None
) -> list[LayerSimilarity]:
    """Compares the heads of every layer on the data, at most :data:`POSITIONS` positions, the first ones.

    Raises:
        Cancelled: from ``on_progress``, called after each layer.
    """
    batch = data.batch(_some(data))
    found: list[LayerSimilarity] = []
    places = {site.name: site.layers for site in lens.sites}
    layers = sum(bool(place.heads) for site in lens.sites for place in site.layers)

    def on_z(site: str, layer: int, z: Tensor) -> None:
        real = batch.positions(site, z.shape[1])[:, : z.shape[1]]
        chosen = at_least_float32(z[real][:POSITIONS])  # [positions, heads, d_head]
        written = torch.einsum("phd,hdm->hpm", chosen, at_least_float32(output_weight(places[site][layer])))
        found.append(similarity(written.cpu().numpy(), site=site, layer=layer))
        if on_progress is not None:
            on_progress(len(found), layers)

    with torch.inference_mode():
        lens.forward(batch.inputs, Run(on_z=on_z))
    return sorted(found, key=lambda layer: (layer.site, layer.layer))


def bench_similarity(bench: Bench) -> LayerSimilarity:
    """Compares the heads of a lab model."""
    written = bench.written.flatten(0, 1)[:: max(1, bench.written[..., 0, 0].numel() // POSITIONS)]
    return similarity(np.ascontiguousarray(written[:POSITIONS].transpose(0, 1).numpy()))


def _some(data: EncodedData) -> list[int]:
    """The first examples that make up enough positions."""
    chosen, positions = [], 0
    for index, example in enumerate(data.examples):
        chosen.append(index)
        positions += example.length
        if (positions >= POSITIONS and example.length > 1) or len(chosen) == 32:
            break
    return chosen
