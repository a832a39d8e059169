"""How big a model is, known before a byte of its weights is read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headlens.errors import ModelError

if TYPE_CHECKING:
    import torch
    from transformers import PretrainedConfig, PreTrainedModel

# Deeper than any published transformer; beyond it even a model without memory takes minutes to lay out.
MAX_LAYERS = 1024
# Weights plus what a forward pass and its gradients need at the short lengths used here.
WORKING_SHARE = 1.2
# What a class may raise when its config does not make sense.
BUILD_ERRORS = (
    ValueError,
    TypeError,
    RuntimeError,
    KeyError,
    IndexError,
    AttributeError,
    ArithmeticError,
    AssertionError,
)


def parameter_count(config: PretrainedConfig, cls: type[PreTrainedModel]) -> int:
    """Number of parameters, tied ones once, of ``cls(config)``.

    The model is laid out on torch's meta device, which holds shapes but no numbers, so any size is free.

    Raises:
        ModelError: the config asks for more than :data:`MAX_LAYERS` layers or cannot be built at all.
    """
    import torch

    from headlens.models.quiet import quiet

    for key, value in _layer_counts(config.to_dict()):
        if value > MAX_LAYERS:
            raise ModelError(f"config.json asks for {value:,} layers ({key}); HeadLens opens up to {MAX_LAYERS:,}")
    try:
        with quiet(), torch.device("meta"):
            model = cls(config)
    except BUILD_ERRORS as error:
        reason = " ".join(str(error).split())[:200]
        raise ModelError(f"config.json does not describe a {cls.__name__} that can be built: {reason}") from error
    return sum(parameter.numel() for parameter in model.parameters())


def _layer_counts(raw: dict[str, Any], prefix: str = "") -> list[tuple[str, int]]:
    """Every whole number in a config whose name speaks of layers, also in nested configs."""
    found: list[tuple[str, int]] = []
    for key, value in raw.items():
        if isinstance(value, dict):
            found += _layer_counts(value, f"{prefix}{key}.")
        elif "layer" in str(key) and isinstance(value, int):
            found.append((prefix + key, value))
    return found


def required_bytes(parameters: int, dtype: torch.dtype) -> int:
    """Memory in bytes to work with that many parameters: the weights and :data:`WORKING_SHARE` around them."""
    return int(parameters * dtype.itemsize * WORKING_SHARE)


def available_bytes(device: str = "cpu") -> int:
    """Free memory in bytes on ``device``: of the GPU for ``cuda...``, else main memory that can be had at once."""
    if device.startswith("cuda"):
        import torch

        return torch.cuda.mem_get_info(torch.device(device))[0]
    import psutil

    return psutil.virtual_memory().available


def check_fits(name: str, needed: int, device: str = "cpu") -> None:
    """Refuse a model that does not fit into free memory.

    Args:
        name: how the user called the model.
        needed: bytes, from :func:`required_bytes`.
        device: where it shall live.

    Raises:
        ModelError: ``needed`` exceeds what is free.
    """
    free = available_bytes(device)
    if needed > free:
        where = "GPU memory" if device.startswith("cuda") else "memory"
        raise ModelError(
            f"{name} needs about {_gigabytes(needed)} of {where}, {_gigabytes(free)} free: "
            "choose a smaller model, a smaller --dtype, or close other programs"
        )


def _gigabytes(count: int) -> str:
    return f"{count / 1e9:,.1f} GB"
