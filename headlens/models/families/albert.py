"""ALBERT: layers share their weights, so one module is called many times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headlens.models.families.base import Family, SiteSpec, StackSpec, submodule

if TYPE_CHECKING:
    from torch import nn


class Albert(Family):
    """ALBERT: a layer is a *call* of a shared module; each call has switches of its own.

    ``num_hidden_layers`` counts calls of groups; a group runs its ``inner_group_num`` layers one after the other.
    """

    name = "ALBERT"
    model_types = ("albert",)
    stacks = (StackSpec("self", "encoder", (SiteSpec("self", "attention", "attention.dense"),)),)
    note = (
        "Layers share their weights: a switch acts on one call of the shared layer, and a head can be cut out only of "
        "all layers that share it."
    )

    def blocks(self, root: nn.Module, stack: StackSpec) -> Sequence[nn.Module]:
        """See the base class."""
        encoder = submodule(root, stack.blocks)
        groups = list(submodule(encoder, "albert_layer_groups").children())
        layers = int(encoder.config.num_hidden_layers)  # type: ignore[union-attr, arg-type]
        order = (groups[int(layer / (layers / len(groups)))] for layer in range(layers))
        return [block for group in order for block in submodule(group, "albert_layers").children()]
