"""Opening a model by catalogue name, path or hub id, with every mistake told in one line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headlens.errors import ModelError
from headlens.models import folders
from headlens.models.catalogue import Source
from headlens.models.labels import CONFIG_KEY, Labels, checked
from headlens.models.locating import locate
from headlens.models.placement import DeviceMap, fitted, spread_by, where_it_lies

if TYPE_CHECKING:
    import torch
    from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

    from headlens.models.tasks import Task

DTYPES = ("float32", "bfloat16", "float16")


@dataclass(frozen=True)
class Loaded:
    """A model ready for use: in eval mode, parameters frozen, attention as its family does it by default.

    Attributes:
        model: with its task head, on the device asked for.
        tokenizer: None for image models.
        processor: image processor or audio feature extractor; None for text models.
        config: the model's own.
        task: what can be measured on it.
        name: what the user called it.
        title: what to call it on a page.
        source: where it came from.
        path: the folder that it was read from.
        notes: sentences that belong beside its numbers.
        sidecar: parsed ``headlens.json`` of a cut model, else None.
        parameters: how many there are; None: count them.
    """

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase | None
    processor: Any
    config: PretrainedConfig
    task: Task
    name: str
    title: str
    source: Source
    path: Path
    notes: tuple[str, ...]
    sidecar: dict[str, Any] | None
    parameters: int | None = None


def load(
    name: str,
    *,
    device: str = "cpu",
    dtype: str | None = None,
    frozen: bool = True,
    device_map: DeviceMap | None = None,
    max_memory: Mapping[int | str, int] | None = None,
) -> Loaded:
    """Open a model; one that was cut comes with the heads that are left.

    Args:
        name: catalogue name, local folder (or GGUF file), or hub id, tried in this order.
        device: ``cpu``, ``cuda``, ``cuda:1``, ``mps`` or ``auto`` (the fastest there is).
        dtype: one of :data:`DTYPES`; float32 by default, on a GPU the dtype that the model was saved in.
        frozen: no parameter takes a gradient.
        device_map: spread the model over devices and the disk; see :mod:`headlens.models.placement`.
        max_memory: bytes that the weights may take on each device (a GPU's number, ``cpu``), with ``device_map``.

    Raises:
        ModelError: not found, not readable, of an unknown kind, damaged, incomplete, or too big for this machine.
    """
    spread = spread_by(device_map, max_memory, device)
    device = pick_device("auto" if spread else device)
    if dtype is not None and dtype not in DTYPES:
        raise ModelError(f"dtype {dtype!r} is not one of {', '.join(DTYPES)}")
    place = locate(name)
    sidecar = folders.read_sidecar(place.path)
    if sidecar is not None:
        folders.check_complete(place.path, sidecar)
    raw = folders.read_config(place.path)
    folders.check_config(raw, name)
    files = folders.weight_files(place.path)
    stored = folders.stored_parameters(files)
    sidecar, labels = _what_was_cut(place.path, raw, sidecar)

    from headlens.models.cutting import cut_class, plain
    from headlens.models.sizes import check_fits, parameter_count, required_bytes
    from headlens.models.tasks import task_of
    from headlens.models.weights import read_pretrained_config, read_weights

    config = read_pretrained_config(place.path, raw)
    task, cls = task_of(config)
    builder = cls if labels is None else cut_class(cls, labels, str(place.path))
    precision = _precision(dtype, device, config)
    parameters = max(stored, parameter_count(config, builder))
    if spread is None:
        check_fits(name, required_bytes(parameters, precision), device)
    else:
        spread = fitted(name, config, builder, precision, spread)
    tokenizer, processor = _open_readers(place.path, config, task, cls)
    model, notes = read_weights(builder, config, place.path, precision, bool(raw.get("pruned_heads")), spread)
    model = plain(model, cls)
    if spread is not None:
        spread.keep_for(model)
        notes += (where_it_lies(model),)
    notes = (*notes_of(labels), *notes)
    if architectures := config.architectures:
        notes += (f"saved as {architectures[0]}, opened as {cls.__name__}",) * (architectures[0] != cls.__name__)
    if tokenizer is not None and len(tokenizer) > getattr(config.get_text_config(), "vocab_size", len(tokenizer)):
        notes += ("the tokenizer has more entries than the model; texts that use the surplus ones cannot be run",)
    if spread is None:
        model = model.to(device)  # type: ignore[arg-type]  # pyright: .to of transformers
    model = model.eval()
    return Loaded(
        model=model.requires_grad_(False) if frozen else model,
        tokenizer=tokenizer,
        processor=processor,
        config=model.config,
        task=task,
        name=name,
        title=place.title,
        source=place.source,
        path=place.path,
        notes=place.notes + notes,
        sidecar=sidecar,
        parameters=parameter_count(config, builder) if spread else None,
    )


def _what_was_cut(
    folder: Path, raw: dict[str, Any], sidecar: dict[str, Any] | None
) -> tuple[dict[str, Any] | None, Labels | None]:
    """``headlens.json`` of a folder with which heads its model has, and those; None where nothing was cut.

    A cut model that transformers alone has saved again has no ``headlens.json``: its config still names the heads.

    Raises:
        ModelError: a file was altered, or the two places do not name the same heads.
    """
    if sidecar is not None:
        folders.check_files(folder, sidecar)
    found = raw.get(CONFIG_KEY)
    if found is None and (sidecar is None or "heads" not in sidecar):
        return sidecar, None
    labels = checked(found, str(folder / folders.CONFIG))
    if sidecar is not None and sidecar.get("heads", labels) != labels:
        raise ModelError(
            f"{folder}: {folders.SIDECAR} and {folders.CONFIG} do not name the same heads; write the folder again"
        )
    return {**(sidecar or {}), "heads": labels}, labels


def notes_of(labels: Labels | None) -> tuple[str, ...]:
    """What users should know of a cut model."""
    if labels is None:
        return ()
    layers = [layer for site in labels.values() for layer in site]
    there, original = (sum(count) for count in zip(*((len(x["heads"]), x["original"]) for x in layers), strict=True))
    if there == original:
        return ()
    return (f"a cut model: {there} of {original} heads are left, under the names that they had before",)


def pick_device(device: str) -> str:
    """A torch device that exists here.

    Raises:
        ModelError: unknown, or not on this machine.
    """
    import torch

    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    kind, _, index = device.partition(":")
    count = {"cpu": 1, "cuda": torch.cuda.device_count(), "mps": int(torch.backends.mps.is_available())}.get(kind)
    if count is None or (index and not index.isdigit()):
        raise ModelError(f"device {device!r} is not one of auto, cpu, cuda, mps")
    if int(index or 0) >= count:
        raise ModelError(f"device {device!r} is not on this machine; use --device cpu or auto")
    return device


def _precision(dtype: str | None, device: str, config: PretrainedConfig) -> torch.dtype:
    import torch

    own = config.dtype if device.startswith("cuda") else None
    return getattr(torch, dtype) if dtype else own if isinstance(own, torch.dtype) else torch.float32


def _open_readers(
    folder: Path, config: PretrainedConfig, task: Task, cls: type[PreTrainedModel]
) -> tuple[PreTrainedTokenizerBase | None, Any]:
    """Tokenizer and processor by what the class takes as its main input."""
    from headlens.models.readers import open_feature_extractor, open_image_processor, open_tokenizer

    if task == "audio":
        return (open_tokenizer(folder) if folders.has_tokenizer(folder) else None), open_feature_extractor(folder)
    if task == "two-tower":
        tokenizer = open_tokenizer(folder) if folders.has_tokenizer(folder) else None
        return tokenizer, open_image_processor(folder, config.vision_config)
    if cls.main_input_name == "pixel_values":
        return None, open_image_processor(folder, config)
    return open_tokenizer(folder), None
