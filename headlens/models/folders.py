"""Model folders as ``save_pretrained`` writes them: read and checked before any library opens them.

Nothing here imports torch or transformers, so a list of models stays cheap.
"""

from __future__ import annotations

import hashlib
import json
from math import prod
from pathlib import Path
from typing import Any

from headlens.errors import ModelError

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
SIDECAR = "headlens.json"
VOCABULARY_FILES = (
    "tokenizer.json",
    "vocab.json",
    "vocab.txt",
    "spiece.model",
    "sentencepiece.bpe.model",
    "tokenizer.model",
    "spm.model",
    "source.spm",
    "tokenizer.tiktoken",
    "tekken.json",
)
# Tokenizers that read bytes or code points need no vocabulary file.
_NO_VOCABULARY = ("ByT5Tokenizer", "CanineTokenizer", "PerceiverTokenizer")
_PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.h5", "*.msgpack")
_TABLES = ("source", "choice", "files", "recovery")
"""What in ``headlens.json`` is read by name."""
# transformers writes a table with one entry per label when it reads a config.
_MAX_LABELS = 1_000_000


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file.

    Raises:
        ModelError: unreadable, not JSON, or not an object.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"{path} cannot be read as JSON ({error}); fix it or save the model again") from error
    if not isinstance(value, dict):
        raise ModelError(f"{path} holds no JSON object; fix it or save the model again")
    return value


def read_config(folder: Path) -> dict[str, Any]:
    """The folder's ``config.json``, parsed but not interpreted.

    Raises:
        ModelError: the folder holds no model, or its config is broken.
    """
    if (folder / CONFIG).is_file():
        return read_json(folder / CONFIG)
    if (folder / "adapter_config.json").is_file():
        raise ModelError(f"{folder} holds an adapter (LoRA), not a model; merge it into its base model and save that")
    try:
        empty = not any(folder.iterdir())
    except OSError as error:
        raise ModelError(f"{folder} cannot be read: {error.strerror or error}") from error
    what = "is empty" if empty else "has no config.json"
    raise ModelError(f"folder {folder} {what}; give a folder written by save_pretrained, or one with a .gguf file")


def check_config(raw: dict[str, Any], name: str) -> None:
    """Refuse configs that need foreign code or special kernels, or that would hang a reader.

    Args:
        raw: parsed ``config.json``.
        name: what the user called the model, for the message.

    Raises:
        ModelError: see above; also for a model type that transformers does not have.
    """
    from transformers import CONFIG_MAPPING, __version__

    kind = raw.get("model_type")
    if kind not in CONFIG_MAPPING and "auto_map" in raw:
        raise ModelError(
            f"{name} brings its own Python code (auto_map in config.json), which HeadLens never runs; "
            "choose a model whose class comes with transformers"
        )
    if kind is not None and kind not in CONFIG_MAPPING:
        raise ModelError(f"{name} has model type {kind!r}, which transformers {__version__} does not know")
    if kind is None and not raw.get("architectures"):
        raise ModelError(f"{name}: config.json names neither model_type nor architectures, so no class can be chosen")
    if "quantization_config" in raw:
        quantization = raw["quantization_config"]
        method = quantization.get("quant_method", "?") if isinstance(quantization, dict) else "?"
        raise ModelError(f"{name} has quantised weights ({method}); use its float version or a GGUF file")
    labels = raw.get("num_labels", 0)
    if isinstance(labels, int) and labels > _MAX_LABELS:
        raise ModelError(f"{name}: config.json asks for {labels:,} labels; that cannot be meant")


def weight_files(folder: Path) -> list[Path]:
    """The safetensors files of a folder, one or the shards of its index.

    Raises:
        ModelError: there are none (pickle files are named and refused), or a shard is missing.
    """
    if (folder / WEIGHTS).is_file():
        return [folder / WEIGHTS]
    if (folder / INDEX).is_file():
        table = read_json(folder / INDEX).get("weight_map")
        if not isinstance(table, dict) or not all(isinstance(shard, str) for shard in table.values()) or not table:
            raise ModelError(f"{folder / INDEX} holds no weight_map; save the model again")
        shards = sorted({str(shard) for shard in table.values()})
        for shard in shards:
            if Path(shard).name != shard or not shard.endswith(".safetensors"):
                raise ModelError(f"{folder / INDEX} names {shard!r}; shards must be .safetensors files beside it")
            if not (folder / shard).is_file():
                raise ModelError(f"{folder} lacks {shard}, one of {len(shards)} weight files; copy it there")
        return [folder / shard for shard in shards]
    pickles = sorted(path.name for pattern in _PICKLES for path in folder.glob(pattern))
    if pickles:
        raise ModelError(
            f"{folder} has only {pickles[0]}, a format that can run code when opened; convert it to safetensors "
            "(load it in transformers and save_pretrained again)"
        )
    others = sorted(path.name for path in folder.glob("*.safetensors"))
    found = f"; {others[0]} is there under another name" if others else ""
    raise ModelError(f"{folder} has no {WEIGHTS}{found}; save the model with save_pretrained")


def tensor_header(path: Path) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Name -> (dtype such as ``F32``, shape) of every tensor in a safetensors file, from its header alone.

    Raises:
        ModelError: not a safetensors file, or shorter or longer than its header says.
    """
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if size < 8 or length > size - 8:
                raise ValueError("the file ends inside its header")
            header = json.loads(file.read(length))
        header.pop("__metadata__", None)
        table = {name: (entry["dtype"], tuple(entry["shape"])) for name, entry in header.items()}
        end = max((entry["data_offsets"][1] for entry in header.values()), default=0)
        if 8 + length + end != size:
            raise ValueError(f"{size:,} bytes where the header asks for {8 + length + end:,}")
    except (OSError, ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError) as error:
        raise ModelError(f"{path} is damaged or cut short ({error}); copy or download it again") from error
    return table


def stored_parameters(files: list[Path]) -> int:
    """Numbers stored in safetensors files (tied weights are stored once).

    Raises:
        ModelError: a file is damaged.
    """
    return sum(prod(shape) for path in files for _, shape in tensor_header(path).values())


def read_sidecar(folder: Path) -> dict[str, Any] | None:
    """``headlens.json`` of a folder that HeadLens wrote (a cut model); None for any other folder.

    Raises:
        ModelError: the file is there but broken.
    """
    path = folder / SIDECAR
    if not path.is_file():
        return None
    found = read_json(path)
    for name in _TABLES:
        if not isinstance(found.get(name, {}), dict):
            raise ModelError(f"{path} is broken ({name} is no JSON object); copy it or write the folder again")
    return found


def file_hash(path: Path) -> str:
    """SHA-256 of a file's bytes, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_complete(folder: Path, sidecar: dict[str, Any]) -> dict[str, str]:
    """Whether every file is there that HeadLens wrote into a folder; their checksums by name.

    Raises:
        ModelError: one is missing.
    """
    files = sidecar.get("files", {})
    if any(Path(str(name)).name != name for name in files):
        raise ModelError(f"{folder / SIDECAR} has a broken list of files; write the folder again")
    for name in files:
        if not (folder / name).is_file():
            raise ModelError(f"{folder} lacks {name}, which was written there; copy the whole folder again")
    return files


def check_files(folder: Path, sidecar: dict[str, Any]) -> None:
    """Whether the files of a folder that HeadLens wrote are those that it wrote.

    Raises:
        ModelError: one is missing or was altered.
    """
    for name, digest in check_complete(folder, sidecar).items():
        if file_hash(folder / name) != digest:
            raise ModelError(
                f"{folder / name} is not the file that was written there (its checksum differs): copy the folder "
                f"again, or, if you changed it on purpose, remove {SIDECAR}"
            )


def has_tokenizer(folder: Path) -> bool:
    """Whether the folder holds what a tokenizer is made of."""
    if any((folder / name).is_file() for name in VOCABULARY_FILES):
        return True
    path = folder / "tokenizer_config.json"
    return path.is_file() and read_json(path).get("tokenizer_class") in _NO_VOCABULARY
