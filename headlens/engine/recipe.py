"""Model and examples as something small to send: names, numbers and the bytes of token ids; no pickle, no model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import load, save

from headlens.data.batch import Encoded, EncodedData
from headlens.errors import HeadlensError

if TYPE_CHECKING:
    from headlens.data.batch import Batch
    from headlens.lens import Lens

WORKER_BYTES = 700 * 2**20
"""A process with torch and transformers in it."""
MODEL_COPIES = 1.3
"""Memory of a worker in weights: the model, and room for activations."""


def model_recipe(lens: Lens) -> dict[str, Any] | None:
    """How to open the same model elsewhere; None where it is only in this process."""
    from headlens.lens import Lens
    from headlens.pruning.rescore import SwitchedLens

    off = ""
    if isinstance(lens, SwitchedLens):
        if not lens.zero:
            return None
        off = lens.topology.format(lens.off_here)
    elif type(lens) is not Lens:
        return None
    if lens.path is None or getattr(lens, "_inputs_on", None) is not None:  # in memory only, or over several devices
        return None
    local = lens.source == "local"
    return {
        "model": str(Path(lens.name).expanduser().absolute()) if local else lens.name,
        "dtype": str(lens.dtype).removeprefix("torch."),
        "device": lens.device.type,
        "off": off,
        "fingerprint": lens.fingerprint,
    }


def rows_at_once(batches: Sequence[Batch]) -> int:
    """The batch size that makes the same batches elsewhere, whatever made them here."""
    return max(len(batch.indices) for batch in batches)


def model_bytes(lens: Lens) -> int:
    """Memory that a worker with this model needs."""
    size = torch.empty((), dtype=lens.dtype).element_size()
    return WORKER_BYTES + int(MODEL_COPIES * size * lens.parameters)


def open_lens(found: Mapping[str, Any], opened: dict[Any, Lens]) -> Lens:
    """The model of a recipe; ``opened`` keeps it for the next job.

    Raises:
        ModelError: it cannot be opened here.
        HeadlensError: under this name there is another model here.
    """
    from headlens.lens import open_model
    from headlens.pruning.rescore import SwitchedLens

    key = (found["model"], found["dtype"], found["device"])
    lens = opened.get(key)
    if lens is None:
        opened.clear()  # one model at a time: memory was counted for one
        lens = opened[key] = open_model(found["model"], device=found["device"], dtype=found["dtype"])
    if found["off"]:
        lens = SwitchedLens(lens, lens.topology.parse(found["off"]))
    if lens.fingerprint != found["fingerprint"]:
        raise HeadlensError(f"{found['model']} has other weights there; give all machines the same model")
    return lens


def pack_data(data: EncodedData) -> dict[str, Any]:
    """Tokenised examples as one safetensors buffer."""
    tensors = {}
    for number, example in enumerate(data.examples):
        for name, value in example.inputs.items():
            tensors[f"{number}/{name}"] = value.contiguous()
        if example.targets is not None:
            tensors[f"{number}//targets"] = example.targets.contiguous()
    about = {"name": data.name, "split": data.split, "pad": data.pad, "examples": len(data), "hash": data.hash}
    return {**about, "tensors": save(tensors)}


def unpack_data(packed: Mapping[str, Any], lens: Lens) -> EncodedData:
    """The examples that :func:`pack_data` packed, for batches on the device of ``lens``.

    Raises:
        HeadlensError: they are not what was sent.
    """
    inputs: list[dict[str, Any]] = [{} for _ in range(packed["examples"])]
    targets: list[Any] = [None] * packed["examples"]
    for key, value in load(packed["tensors"]).items():
        number, _, name = key.partition("/")
        if name == "/targets":
            targets[int(number)] = value
        else:
            inputs[int(number)][name] = value
    examples = tuple(Encoded(one, target) for one, target in zip(inputs, targets, strict=True))
    data = EncodedData(packed["name"], packed["split"], examples, packed["pad"], lens.device)
    if data.hash != packed["hash"]:
        raise HeadlensError("the examples arrived changed; run again")
    return data
