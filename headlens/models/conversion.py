"""GGUF files turned once into a float32 safetensors folder, which opens in a fraction of the time."""

from __future__ import annotations

import functools
import hashlib
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headlens.errors import ModelError
from headlens.models.folders import has_tokenizer, read_config, tensor_header, weight_files
from headlens.paths import CACHE_VARIABLE, models_cache_dir

if TYPE_CHECKING:
    from transformers import PreTrainedModel

MAGIC = b"GGUF"
# Part of every cached name: raise it when the way of converting changes.
FORMAT = "f32-1"
# Seconds after which an unfinished conversion belongs to a process that was killed.
ABANDONED_AFTER = 3600
_LOCK = threading.Lock()


def content_hash(path: Path) -> str:
    """First 16 hex digits of the SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]


def converted(gguf: Path, key: str | None = None) -> Path:
    """Folder with the float32 safetensors version of a GGUF file, made now if it is not in the cache yet.

    Several processes may convert the same file at once: each writes into a folder of its own and the first to
    finish gives it its final name in one step, so a folder with that name is always whole.

    Args:
        gguf: the file.
        key: name of the folder in the cache; made from the file's bytes by default.

    Raises:
        ModelError: not a GGUF file, of a kind that transformers does not read, or too big.
    """
    _check_magic(gguf)
    target = models_cache_dir() / f"{key or f'gguf-{content_hash(gguf)}'}-{FORMAT}"
    with _LOCK:
        if is_whole(target):
            return target
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            _sweep(target)
            temporary = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
        except OSError as error:
            raise _not_kept(target.parent, error) from error
        try:
            _convert(gguf, temporary)
            _publish(temporary, target)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    return target


def _sweep(target: Path) -> None:
    """Remove what killed conversions of the same file left behind, once no living one can be using it."""
    for leftover in target.parent.glob(f".{target.name}-*"):
        if time.time() - leftover.stat().st_mtime > ABANDONED_AFTER:
            shutil.rmtree(leftover, ignore_errors=True)


def is_whole(folder: Path) -> bool:
    """Whether a converted folder has its config, undamaged weights and tokenizer."""
    try:
        read_config(folder)
        for file in weight_files(folder):
            tensor_header(file)
        return has_tokenizer(folder)
    except ModelError:
        return False


def _check_magic(gguf: Path) -> None:
    try:
        with gguf.open("rb") as file:
            start = file.read(4)
    except OSError as error:
        raise ModelError(f"{gguf} cannot be read: {error.strerror or error}") from error
    if start != MAGIC:
        raise ModelError(f"{gguf} is not a GGUF file (it does not start with GGUF); download it again")


def _publish(temporary: Path, target: Path) -> None:
    """Give a finished folder its name, unless another process was first."""
    try:
        temporary.rename(target)
    except OSError as error:
        if is_whole(target):
            return
        # Something unusable holds the name (a damaged disk, a hand-made folder): move it out of the way.
        shutil.rmtree(target, ignore_errors=True)
        try:
            temporary.rename(target)
        except OSError:
            if not is_whole(target):
                raise ModelError(f"{target} cannot be written ({error.strerror}); remove it and try again") from error


def _convert(gguf: Path, folder: Path) -> None:
    """Read ``gguf`` and write config, weights and tokenizer into ``folder``."""
    from safetensors import SafetensorError
    from transformers import AutoConfig, AutoTokenizer
    from transformers.utils.quantization_config import GgufConfig

    from headlens.models.quiet import quiet
    from headlens.models.sizes import check_fits, parameter_count, required_bytes
    from headlens.models.tasks import task_of

    source, name = str(gguf.parent), gguf.name
    try:
        with quiet(), _eased_reading():
            config = AutoConfig.from_pretrained(source, gguf_file=name, local_files_only=True)
            _, cls = task_of(config)
            import torch

            # two copies at the worst moment: the file's tensors and the model's
            check_fits(name, 2 * required_bytes(parameter_count(config, cls), torch.float32))
            tokenizer = AutoTokenizer.from_pretrained(source, gguf_file=name, local_files_only=True)
            opened: Any = cls.from_pretrained(
                source,
                config=config,
                gguf_file=name,
                dtype=torch.float32,
                quantization_config=GgufConfig(dequantize=True),
                local_files_only=True,
                output_loading_info=True,
            )
            model, info = opened
            if info["missing_keys"]:
                missing = sorted(info["missing_keys"])
                raise ModelError(f"{gguf} lacks {len(missing)} of the model's weights, such as {missing[0]}")
            try:
                _plain_copy(model).save_pretrained(folder)
                tokenizer.save_pretrained(folder)
            except (OSError, SafetensorError) as error:  # a full disk, say
                raise _not_kept(folder.parent, error) from error
    except ModelError:
        raise
    except Exception as error:  # what a broken file sets off is open-ended; tokenizers raises plain Exception
        reason = " ".join(str(error).split())[:160] or type(error).__name__
        raise ModelError(f"{gguf} cannot be read as a GGUF model: {reason}") from error


def _not_kept(place: Path, error: Exception) -> ModelError:
    reason = getattr(error, "strerror", None) or " ".join(str(error).split())
    return ModelError(
        f"converted models cannot be kept in {place}: {reason}; "
        f"free space there or set {CACHE_VARIABLE} to another folder"
    )


def _plain_copy(model: PreTrainedModel) -> PreTrainedModel:
    """The same weights in a model whose config no longer says that it came from GGUF.

    A model read from GGUF refuses to be saved: its config carries a ``quantization_config``.
    """
    import torch

    fields = {key: value for key, value in model.config.to_dict().items() if key != "quantization_config"}
    config = type(model.config)(**fields)
    config.dtype = torch.float32
    with torch.device("meta"):
        plain = type(model)(config)
    plain.load_state_dict(model.state_dict(), assign=True)
    plain.tie_weights()
    return plain


@contextmanager
def _eased_reading() -> Iterator[None]:
    """Make transformers' GGUF reader silent and quicker for the length of a conversion.

    It has one progress bar that transformers' own switch does not reach. It also parses the file three times and
    builds the table of tensor names once per submodule; both are pure functions of their arguments, so they are
    remembered here (measured on SmolLM2: half the time).
    """
    import gguf
    from transformers import modeling_gguf_pytorch_utils

    # Looked up by name, so that a release without one of them only loses the ease.
    changes: list[tuple[Any, str, Any]] = [
        (modeling_gguf_pytorch_utils, "tqdm", lambda bar: functools.partial(bar, disable=True)),
        (gguf, "GGUFReader", functools.lru_cache(maxsize=1)),
        (gguf, "get_tensor_name_map", functools.lru_cache(maxsize=8)),
    ]
    before = [(module, name, getattr(module, name)) for module, name, _ in changes if hasattr(module, name)]
    try:
        for module, name, change in changes:
            if hasattr(module, name):
                setattr(module, name, change(getattr(module, name)))
        yield
    finally:
        for module, name, original in before:
            setattr(module, name, original)
