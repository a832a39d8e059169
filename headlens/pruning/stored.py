"""In which precision a model that HeadLens made is stored, and how many bytes that takes."""

from __future__ import annotations

import json
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from headlens.errors import HeadlensError
from headlens.models import folders
from headlens.models.quiet import quiet

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_SIZES = {torch.bfloat16: "BF16", torch.float16: "F16", torch.float32: "F32"}


def bytes_before(lens: Any) -> int:
    """Size of the weight files of a model before it is cut, as HeadLens would write them."""
    stored = stored_dtype(lens.path, lens.model)
    files = folders.weight_files(lens.path) if lens.path is not None and _has_weights(lens.path) else []
    if files and _dtypes(files) == {_SIZES.get(stored)}:
        return sum(path.stat().st_size for path in files)
    size = torch.empty((), dtype=stored).element_size()
    return sum(parameter.numel() for parameter in lens.model.parameters()) * size


def _has_weights(path: Path) -> bool:
    return (path / folders.WEIGHTS).is_file() or (path / folders.INDEX).is_file()


def _dtypes(files: list[Path]) -> set[str]:
    """Kinds of numbers in safetensors files that have more than one number."""
    headers = [folders.tensor_header(path) for path in files]
    return {dtype for header in headers for dtype, shape in header.values() if prod(shape) > 1}


def stored_dtype(path: Path | None, model: PreTrainedModel) -> torch.dtype:
    """In which precision to store: that of the source's files where nothing is lost by it, else that of the model."""
    try:
        found = _dtypes(folders.weight_files(path)) if path is not None else set()
    except HeadlensError:
        found = set()
    for dtype in (torch.bfloat16, torch.float16):
        if found == {_SIZES[dtype]} and model.dtype == torch.float32:
            weights = (p.detach() for p in model.parameters() if p.is_floating_point())
            if all(torch.equal(weight.to(dtype).to(weight.dtype), weight) for weight in weights):
                return dtype
    return model.dtype


def told_dtype(path: Path | None) -> str | None:
    """In which precision the config of a folder says that its model is to be opened; None where it says nothing."""
    if path is None or not (path / folders.CONFIG).is_file():
        return None
    try:
        raw = folders.read_config(path)
    except HeadlensError:
        return None
    told = raw.get("dtype", raw.get("torch_dtype"))
    return told if isinstance(told, str) and isinstance(getattr(torch, told, None), torch.dtype) else None


def write_weights(model: PreTrainedModel, new: Path, dtype: torch.dtype, told: str | None = None) -> None:
    """Config, generation config and safetensors.

    Args:
        model: the model.
        new: an empty folder.
        dtype: in which precision to store it.
        told: in which transformers alone is to open it, as the source's config says; None takes ``dtype``. Files of
            half the size are no reason to compute with half the precision.
    """
    saving: dict[str, Any] = {}
    if dtype != model.dtype:
        halves: dict[int, torch.Tensor] = {}  # tied weights stay one
        saving["state_dict"] = {
            name: halves.setdefault(tensor.data_ptr(), tensor.to(dtype)) if tensor.is_floating_point() else tensor
            for name, tensor in model.state_dict().items()
        }
    before = model.config.dtype
    try:
        with quiet():
            model.save_pretrained(new, **saving)
    finally:
        model.config.dtype = before
    if saving:
        raw = folders.read_json(new / folders.CONFIG)
        raw["dtype"] = told or str(dtype).removeprefix("torch.")
        (new / folders.CONFIG).write_text(json.dumps(raw, indent=2, sort_keys=True) + "\n", encoding="utf-8")
