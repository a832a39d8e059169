"""What turns a user's text or picture into a model's inputs: tokenizers and image processors."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from headlens.errors import ModelError
from headlens.models.folders import has_tokenizer
from headlens.models.quiet import quiet

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedTokenizerBase

_OPEN_ERRORS = (ValueError, TypeError, KeyError, OSError, RuntimeError, ImportError, AttributeError, IndexError)
PREPROCESSOR = "preprocessor_config.json"


def open_tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    """The tokenizer of a model folder.

    Raises:
        ModelError: the folder has none, or it is broken.
    """
    from transformers import AutoTokenizer

    if not has_tokenizer(folder):
        raise ModelError(f"{folder} has no tokenizer; save it there too (tokenizer.save_pretrained)")
    try:
        with quiet():
            return AutoTokenizer.from_pretrained(str(folder), local_files_only=True, trust_remote_code=False)
    except Exception as error:  # the tokenizers library raises plain Exception for a broken file
        raise _broken("tokenizer", folder, error) from error


def open_image_processor(folder: Path, config: PretrainedConfig) -> Any:
    """The image processor of a model folder; a plain one for ``config.image_size`` when none was saved.

    The plain one resizes, scales to 0..1 and normalises with mean and deviation 0.5, as ViT's own does.

    Raises:
        ModelError: ``preprocessor_config.json`` is there but broken.
    """
    from transformers import AutoImageProcessor, ViTImageProcessorPil

    if (folder / PREPROCESSOR).is_file():
        try:
            with quiet():
                return AutoImageProcessor.from_pretrained(
                    str(folder), local_files_only=True, trust_remote_code=False, backend="pil"
                )
        except _OPEN_ERRORS as error:
            raise _broken("image processor", folder, error) from error
    size = getattr(config, "image_size", 224)
    height, width = size if isinstance(size, (list, tuple)) else (size, size)
    return ViTImageProcessorPil(size={"height": height, "width": width})


def open_feature_extractor(folder: Path) -> Any:
    """The audio feature extractor of a model folder, None when none was saved.

    Raises:
        ModelError: it is there but broken.
    """
    from transformers import AutoFeatureExtractor

    if not (folder / PREPROCESSOR).is_file():
        return None
    try:
        with quiet():
            return AutoFeatureExtractor.from_pretrained(str(folder), local_files_only=True, trust_remote_code=False)
    except _OPEN_ERRORS as error:
        raise _broken("feature extractor", folder, error) from error


def _broken(what: str, folder: Path, error: Exception) -> ModelError:
    return ModelError(f"the {what} in {folder} cannot be opened ({' '.join(str(error).split())[:160]}); save it again")
