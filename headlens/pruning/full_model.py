"""The model that a cut one was taken from: found through ``headlens.json``, checked, opened."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from headlens.errors import ModelError
from headlens.pruning.benchmark import missing_heads
from headlens.pruning.names import found_from

if TYPE_CHECKING:
    from pathlib import Path

    from headlens.data.dataset import DataSet
    from headlens.heads import HeadSet
    from headlens.lens import Lens


def source_name(sidecar: Mapping[str, Any] | None, folder: Path | None) -> str | None:
    """The full model that the ``headlens.json`` of a folder names; None where nothing says so."""
    source = (sidecar or {}).get("source")
    name = source.get("model") if isinstance(source, Mapping) else None
    return found_from(folder, name) if isinstance(name, str) and name else None


def open_full(cut: Lens, sidecar: Mapping[str, Any] | None, named: str | None = None, *, device: str = "auto") -> Lens:
    """Opens the full model, in float32.

    Args:
        cut: the model that was cut.
        sidecar: its ``headlens.json``.
        named: MODEL that the user named instead; then its weights need not be those that the cut was made from.
        device: where to.

    Raises:
        ModelError: it is nowhere, or it is not the model that the cut was made from.
    """
    from headlens.lens import open_model

    name = named or source_name(sidecar, cut.path)
    if name is None:
        raise ModelError(f"{cut.name} does not say which model it was cut from; name it with --teacher MODEL")
    try:
        full = open_model(name, device=device, dtype="float32")
    except ModelError as error:
        if named is not None:
            raise
        raise ModelError(
            f"the model that {cut.name} was cut from cannot be opened ({error}); name it with --teacher"
        ) from error
    if full.task != cut.task:
        raise ModelError(
            f"{name} is a {full.task} model and {cut.name} a {cut.task} model; name another with --teacher"
        )
    told = (sidecar or {}).get("source", {}).get("fingerprint")
    if named is None and told is not None and full.fingerprint != told:
        raise ModelError(
            f"{name} is not, bit for bit, the model that {cut.name} was cut from; if it is the one you want to compare "
            f"with, say --teacher {name}"
        )
    return full


def check_same_reading(full: Lens, cut: Lens, data: DataSet) -> None:
    """Whether two models read the same tokens and give outputs of one size; raises ModelError."""
    from dataclasses import replace

    from headlens.data.encode import encode

    some = replace(data, examples=data.examples[:8])
    if encode(full, some).hash != encode(cut, some).hash:
        raise ModelError(f"{full.name} reads the data differently from {cut.name}; name the model it was cut from")
    sizes = [width(lens) for lens in (full, cut)]
    if sizes[0] != sizes[1]:
        raise ModelError(f"{full.name} gives {sizes[0]} numbers at each position and {cut.name} {sizes[1]}")


def width(lens: Lens) -> int:
    """Numbers at one position of what is scored: classes, tokens, or the width of the model."""
    config: Any = lens.model.config
    if lens.task.endswith("classification"):
        return int(config.num_labels)
    text = config.get_text_config()
    return int(text.hidden_size if lens.task == "embedding" else text.vocab_size)


def taken_out(full: Lens, cut: Lens) -> HeadSet:
    """Heads that the cut lacks; raises ModelError where it is no cut of the full model."""
    found = missing_heads(full.topology, cut.topology)
    if found is None:
        raise ModelError(f"{cut.name} is not a cut of {full.name}: their layers differ")
    return found
