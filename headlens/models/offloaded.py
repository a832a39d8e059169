"""Numbers of weights that are not in memory: accelerate keeps them elsewhere between two forward passes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from torch import nn


def at_hand(module: nn.Module, name: str = "weight") -> Any:
    """A parameter or buffer with its numbers: the tensor itself, or a copy on the CPU of one that is offloaded.

    A tensor without numbers that no offloading is behind (a model that was only laid out) stays as it is.

    Returns:
        The tensor, or None where the module has none of this name.
    """
    tensor: torch.Tensor | None = getattr(module, name, None)
    if tensor is None or not tensor.is_meta:
        return tensor
    weights = _weights_of(module)
    return tensor if weights is None else weights[name].to(tensor.dtype)


def tensors_of(model: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Name and tensor of everything in the model's ``state_dict``, sorted by name; offloaded ones one at a time."""
    modules = dict(model.named_modules())
    for name, tensor in sorted(model.state_dict().items()):
        path, _, leaf = name.rpartition(".")
        yield name, at_hand(modules[path], leaf) if tensor.is_meta else tensor


def is_offloaded(model: nn.Module) -> bool:
    """Whether some weights are loaded for each forward pass and put away after it."""
    return any(_weights_of(module) is not None for module in model.modules())


def _weights_of(module: nn.Module) -> Mapping[str, torch.Tensor] | None:
    hook: Any = getattr(module, "_hf_hook", None)
    for one in getattr(hook, "hooks", (hook,)):
        if getattr(one, "offload", False) and getattr(one, "weights_map", None) is not None:
            return one.weights_map
    return None
