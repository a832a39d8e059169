"""What is trained of a model, and AdamW over it, with its state as plain tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch

from headlens.errors import HeadlensError, ModelError

if TYPE_CHECKING:
    from torch import Tensor, nn

    from headlens.lens import Lens
    from headlens.pruning.recovery_spec import RecoverySpec

_MOMENTS = ("step", "exp_avg", "exp_avg_sq")


def trained_parameters(lens: Lens, *, freeze_embeddings: bool = False) -> dict[str, nn.Parameter]:
    """What is trained, by name; tied weights once.

    Raises:
        ModelError: the model is not in float32, or nothing is left to train.
    """
    if lens.dtype != torch.float32:
        raise ModelError(
            f"training takes float32 weights and {lens.name} was opened in {lens.dtype}; use --dtype float32"
        )
    frozen: set[int] = set()
    if freeze_embeddings:
        frozen = {id(parameter) for parameter in lens.model.get_input_embeddings().parameters()}
    found = {name: p for name, p in lens.model.named_parameters() if id(p) not in frozen and p.is_floating_point()}
    if not found:
        raise ModelError(f"{lens.name} has nothing to train but its embeddings")
    return found


def model_width(lens: Lens) -> int:
    """Width of the stream between the layers."""
    config: Any = lens.model.config.get_text_config()
    width = getattr(config, "hidden_size", None)
    if not isinstance(width, int):
        raise HeadlensError(f"{lens.name} does not say how wide it is, so give a learning rate: --lr 1e-4")
    return width


def adamw(trained: Mapping[str, nn.Parameter], spec: RecoverySpec) -> torch.optim.AdamW:
    """AdamW with decay for matrices only; the rate is set at each step."""
    matrices = [parameter for parameter in trained.values() if parameter.dim() > 1]
    vectors = [parameter for parameter in trained.values() if parameter.dim() <= 1]
    groups = [{"params": matrices, "weight_decay": spec.weight_decay}, {"params": vectors, "weight_decay": 0.0}]
    return torch.optim.AdamW([group for group in groups if group["params"]], lr=1.0, betas=(0.9, 0.95))


def packed(trained: Mapping[str, nn.Parameter], optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The weights and what AdamW remembers of each, by ``<kind>/<name>``."""
    found: dict[str, Tensor] = {}
    for name, parameter in trained.items():
        found[f"weight/{name}"] = parameter.detach()
        moments = optimizer.state.get(parameter, {})
        found |= {f"{kind}/{name}": moments[kind] for kind in _MOMENTS if kind in moments}
    return found


def unpacked(
    trained: Mapping[str, nn.Parameter], optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]
) -> None:
    """Puts them back."""
    for name, parameter in trained.items():
        moments = {kind: tensors[f"{kind}/{name}"] for kind in _MOMENTS if f"{kind}/{name}" in tensors}
        if moments:
            step = moments.pop("step")  # AdamW counts on the CPU
            on_device = {kind: tensor.to(parameter.device) for kind, tensor in moments.items()}
            optimizer.state[parameter] = {"step": step, **on_device}
    take({name: tensors[f"weight/{name}"] for name in trained}, trained)


def take(weights: Mapping[str, Tensor], trained: Mapping[str, nn.Parameter]) -> None:
    """Gives the parameters these weights."""
    with torch.no_grad():
        for name, parameter in trained.items():
            parameter.copy_(weights[name])
