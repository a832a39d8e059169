"""Config and weights of a model folder, read so that nothing is left random or misread silently."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from headlens.errors import ModelError
from headlens.models import folders

if TYPE_CHECKING:
    import torch
    from transformers import PretrainedConfig, PreTrainedModel

    from headlens.models.placement import Spread


def read_pretrained_config(folder: Path, raw: dict[str, Any]) -> PretrainedConfig:
    """The transformers config of a folder.

    Args:
        folder: where ``config.json`` is.
        raw: the same file, parsed.

    Raises:
        ModelError: a value in it does not make sense.
    """
    import transformers
    from huggingface_hub.errors import StrictDataclassError

    from headlens.models.quiet import quiet
    from headlens.models.sizes import BUILD_ERRORS

    reader: Any = transformers.AutoConfig
    if "model_type" not in raw:  # old checkpoints: the class named in the config knows
        cls = getattr(transformers, str(raw["architectures"][0]), None)
        reader = getattr(cls, "config_class", None)
        if reader is None:
            raise ModelError(f"{folder}: config.json has no model_type and its class is not in transformers")
    extra = {"trust_remote_code": False} if reader is transformers.AutoConfig else {}
    try:
        with quiet():
            return reader.from_pretrained(str(folder), local_files_only=True, **extra)
    except (*BUILD_ERRORS, OSError, StrictDataclassError) as error:
        reason = " ".join(str(error).split())[:200]
        raise ModelError(f"{folder / folders.CONFIG} has values that do not fit its model type: {reason}") from error


def read_weights(
    cls: type[PreTrainedModel],
    config: PretrainedConfig,
    folder: Path,
    dtype: torch.dtype,
    pruned: bool = False,
    spread: Spread | None = None,
) -> tuple[PreTrainedModel, tuple[str, ...]]:
    """Build ``cls`` and fill it from the folder's safetensors; no weight may be left random.

    Args:
        cls: transformers class.
        config: its config.
        folder: where the weights are.
        dtype: of the weights in memory.
        pruned: the config lists heads pruned by transformers 4.
        spread: over which devices; None: the CPU alone.

    Returns:
        The model where ``spread`` says, and notes about what in the files was ignored.

    Raises:
        ModelError: weights are damaged, missing or of the wrong shape.
    """
    from safetensors import SafetensorError

    from headlens.models.quiet import quiet
    from headlens.models.sizes import BUILD_ERRORS

    try:
        with quiet():
            # Wrong shapes are let through here and refused below, where they can be named.
            opened: Any = cls.from_pretrained(
                str(folder),
                config=config,
                dtype=dtype,
                use_safetensors=True,
                local_files_only=True,
                trust_remote_code=False,
                ignore_mismatched_sizes=True,
                output_loading_info=True,
                **({} if spread is None else spread.for_transformers()),
            )
    except (*BUILD_ERRORS, OSError, SafetensorError, MemoryError) as error:
        reason = " ".join(str(error).split())[:200]
        raise ModelError(f"the weights in {folder} cannot be loaded as {cls.__name__}: {reason}") from error
    model, info = opened
    # Of a layer without heads older folders hold nothing at all, newer ones an empty matrix.
    empty = {name for name, tensor in model.state_dict().items() if not tensor.numel()}
    info["missing_keys"] = [key for key in info["missing_keys"] if key not in empty]
    return model, _check_report(info, cls.__name__, folder, pruned)


def _check_report(info: dict[str, Any], cls: str, folder: Path, pruned: bool) -> tuple[str, ...]:
    """Turn transformers' loading report into an error or into notes."""
    if wrong := sorted(info["mismatched_keys"]):
        key, stored, wanted = wrong[0]
        cut = "; pruned_heads in config.json says that transformers 4 cut them, which 5 cannot open" if pruned else ""
        raise ModelError(
            f"{len(wrong)} weights in {folder} have the wrong shape for {cls}, such as {key}: {tuple(stored)} in the "
            f"file, {tuple(wanted)} by config.json{cut}"
        )
    # A pooler that was not saved is never used: only the hidden states are.
    missing = sorted(key for key in info["missing_keys"] if not key.startswith(("pooler.", "bert.pooler.")))
    if missing:
        raise ModelError(
            f"{folder} lacks {len(missing)} weights of {cls}, such as {', '.join(missing[:3])}; they would be random. "
            "Save the trained model with its head, or name its base class in config.json (architectures)"
        )
    notes: tuple[str, ...] = ()
    if unused := sorted(info["unexpected_keys"]):
        notes += (f"{len(unused)} weights in the files are not used by {cls}, such as {unused[0]}",)
    if pruned:
        notes += (
            "config.json lists pruned_heads, which transformers 5 ignores: every head is there and shown in full",
        )
    return notes
