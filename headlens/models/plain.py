"""A model as transformers has it: for training, generating and whatever else HeadLens has no part in."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def load(name: str, *, device: str = "cpu", dtype: str | None = None) -> PreTrainedModel:
    """Opens a model, also one that was cut, as the plain transformers model with its task head.

    It is in eval mode, its parameters take gradients, nothing of HeadLens is installed in it. ``save_pretrained``
    writes it so that ``load`` opens it again.

    Args:
        name: a folder written by ``headlens prune``, or any other MODEL.
        device: ``auto``, ``cpu``, ``cuda`` or ``mps``.
        dtype: ``float32``, ``bfloat16`` or ``float16``; float32 on a CPU unless asked.

    Raises:
        ModelError: it cannot be found, read, understood or held in memory, or files in the folder were altered.
    """
    from headlens.models.loading import load as open_loaded

    return open_loaded(name, device=device, dtype=dtype, frozen=False).model
