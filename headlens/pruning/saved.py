"""A model folder with its provenance: config, safetensors, tokenizer, ``headlens.json`` and a model card."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import headlens
from headlens.errors import ModelError
from headlens.models import folders
from headlens.models.plain_shape import as_plain
from headlens.models.quiet import quiet
from headlens.models.readers import PREPROCESSOR, open_tokenizer
from headlens.pruning.card import card, opener
from headlens.pruning.names import seen_from, spoken
from headlens.pruning.publish import not_written, replacing
from headlens.pruning.stored import bytes_before, stored_dtype, told_dtype, write_weights

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from headlens.models.loading import Loaded
    from headlens.pruning.cut import Cut

FORMAT = 1
CARD = "README.md"
_NOT_CHECKED = (CARD, "generation_config.json")
"""Files that people edit, and that change no number."""
_READER_FILES = (
    *folders.VOCABULARY_FILES,
    *("tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "merges.txt", "chat_template.jinja"),
    *("normalizer.json", PREPROCESSOR, "processor_config.json"),
)
_PROBE = "The cat's 3 old mats, naïve but 70 % dry.\nWhy?"


@dataclass(frozen=True)
class Saved:
    """A folder that was written.

    Attributes:
        folder: where.
        bytes: size of its weight files.
        loads_with: the transformers class that opens it alone, or None where it takes ``headlens.load``.
        facts: what ``headlens.json`` says.
    """

    folder: Path
    bytes: int
    loads_with: str | None
    facts: Mapping[str, Any]


def save_cut(
    result: Cut,
    folder: Path,
    *,
    source: Mapping[str, Any],
    choice: Mapping[str, Any] | None = None,
    size_before: int | None = None,
    command: str | None = None,
) -> Saved:
    """Writes a cut (or masked) model; :func:`headlens.pruning.publish.check_target` first.

    Args:
        result: the model.
        folder: its new name; what is there is replaced.
        source: what it was cut from: ``model``, ``fingerprint``, ... (see :func:`source_of`).
        choice: how the heads were chosen.
        size_before: bytes of the weight files before (see :func:`bytes_before`).
        command: the command that makes it again.

    Raises:
        HeadlensError: it cannot be written; what was there before is untouched.
    """
    facts = {
        "kind": "masked" if result.masked else "cut",
        "source": dict(source),
        "off": result.removed,
        "choice": dict(choice or {}),
        "parameters_before": result.parameters_before,
        "parameters_after": result.parameters_after,
        "bytes_before": size_before,
        **result.proof.describe(),
        "kv_groups_kept_for_a_part": list(result.part_groups),
        "command": command,
    }
    return save_model(result.loaded, folder, facts)


def save_model(loaded: Loaded, folder: Path, facts: Mapping[str, Any]) -> Saved:
    """Writes a model that HeadLens made, with tokenizer, ``headlens.json`` and card; all of it or nothing.

    Weights are stored in the precision of the source's files where that loses nothing. A cut model whose layers are
    all alike is stored in a form that transformers opens alone, where its family has one.

    Args:
        loaded: the model; its ``sidecar`` names the heads of a cut one.
        folder: its new name.
        facts: what goes into ``headlens.json`` (``kind``, ``source``, ...).

    Raises:
        HeadlensError: it cannot be written; what was there before is untouched.
    """
    from safetensors import SafetensorError

    labels = (loaded.sidecar or {}).get("heads")
    plain = None if labels is None else as_plain(loaded.model, labels)
    facts = _without_paths(facts, folder)
    with replacing(folder) as new:
        try:
            _write_readers(loaded, new)
            if plain is not None and not _reads_alike(loaded, plain, new):
                plain = None
            model = plain or loaded.model
            write_weights(model, new, stored_dtype(loaded.path, loaded.model), told_dtype(loaded.path))
        except SafetensorError as error:  # so a full disk is told
            raise not_written(folder, error) from error
        loads_with = opener(model, loaded.task) if plain is not None or labels is None else None
        whole = {
            "format": FORMAT,
            **facts,
            "loads_with": loads_with or "headlens.load",
            "bytes_after": sum(path.stat().st_size for path in folders.weight_files(new)),
            "versions": versions(),
            "files": {p.name: folders.file_hash(p) for p in sorted(new.iterdir()) if p.name not in _NOT_CHECKED},
        }
        if labels is not None:
            whole["heads"] = model.config.headlens_heads
        (new / folders.SIDECAR).write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")
        (new / CARD).write_text(card(whole, type(model).__name__), encoding="utf-8")
        for path in new.iterdir():  # safetensors keeps its files to their owner
            path.chmod((new / CARD).stat().st_mode)
    return Saved(folder, whole["bytes_after"], loads_with, whole)


def versions() -> dict[str, str]:
    """What the numbers depend on besides the data."""
    return {"headlens": headlens.__version__, **{name: version(name) for name in ("torch", "transformers")}}


def _without_paths(facts: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The same with other models named as they are seen from the folder."""
    found = dict(facts)
    if isinstance(source := found.get("source"), Mapping) and source.get("model"):
        found["source"] = {**source, "model": seen_from(folder, str(source["model"]))}
    if isinstance(choice := found.get("choice"), Mapping) and choice.get("model"):
        found["choice"] = {**choice, "model": spoken(str(choice["model"]))}
    if found.get("recovered_from"):
        found["recovered_from"] = seen_from(folder, str(found["recovered_from"]))
    return found


def source_of(lens: Any) -> dict[str, Any]:
    """Where a cut model comes from: name, fingerprint, and the cuts that its source had behind it already."""
    path: Path | None = lens.path
    before: dict[str, Any] = {}
    if path is not None:
        try:
            before = folders.read_sidecar(path) or {}
        except ModelError:
            before = {}
    earlier = {name: before[name] for name in ("source", "off", "choice", "kind") if name in before}
    return {
        "model": lens.name,
        "title": lens.title,
        "class": type(lens.model).__name__,
        "fingerprint": lens.fingerprint,
        **({"before": earlier} if earlier else {}),
    }


def _write_readers(loaded: Loaded, new: Path) -> None:
    """Tokenizer and processor: the source's own files where they are, byte for byte."""
    path: Path | None = loaded.path
    copied = [name for name in _READER_FILES if path is not None and (path / name).is_file()]
    for name in copied:
        shutil.copyfile(Path(path) / name, new / name)  # type: ignore[arg-type]
    with quiet():
        if loaded.tokenizer is not None and not folders.has_tokenizer(new):
            loaded.tokenizer.save_pretrained(new)
        if loaded.processor is not None and not (new / PREPROCESSOR).is_file():
            loaded.processor.save_pretrained(new)


def _reads_alike(loaded: Loaded, plain: PreTrainedModel, new: Path) -> bool:
    """Whether the tokenizer still reads text the same way beside a config of another family."""
    if loaded.tokenizer is None or plain.config.model_type == loaded.model.config.model_type:
        return True
    plain.config.save_pretrained(new)
    try:
        found = open_tokenizer(new)
        same = found(_PROBE)["input_ids"] == loaded.tokenizer(_PROBE)["input_ids"]
        return same and found.all_special_ids == loaded.tokenizer.all_special_ids
    except ModelError:
        return False
    finally:
        (new / folders.CONFIG).unlink()


__all__ = ["FORMAT", "Saved", "bytes_before", "save_cut", "save_model", "source_of", "versions"]
