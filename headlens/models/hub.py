"""Models from the Hugging Face hub: what is cached here, and a download that answers quickly when there is no net."""

from __future__ import annotations

import os
import re
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headlens.errors import ModelError
from headlens.models.folders import CONFIG, INDEX, SIDECAR, VOCABULARY_FILES, WEIGHTS, check_config, read_json
from headlens.models.folders import weight_files as _weight_files

if TYPE_CHECKING:
    from huggingface_hub.hf_api import ModelInfo

_REPO_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?", re.ASCII)
_TRUE = {"1", "ON", "YES", "TRUE"}
_SHARD = re.compile(r"model-\d+-of-\d+\.safetensors")
_PLAIN_FILES = {
    CONFIG,
    WEIGHTS,
    INDEX,
    SIDECAR,
    *VOCABULARY_FILES,
    "merges.txt",
    "target.spm",
    "added_tokens.json",
    "special_tokens_map.json",
    "tokenizer_config.json",
    "generation_config.json",
    "preprocessor_config.json",
    "processor_config.json",
    "chat_template.jinja",
}


def is_repo_id(name: str) -> bool:
    """Whether ``name`` could be a hub id: ``model`` or ``owner/model``, in the hub's alphabet."""
    return len(name) <= 96 and ".." not in name and "--" not in name and _REPO_ID.fullmatch(name) is not None


def hub_cache() -> Path:
    """Folder where huggingface_hub keeps downloads, by the same environment variables."""
    for variable in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if value := os.environ.get(variable):
            return Path(os.path.expandvars(value)).expanduser()
    home = os.environ.get("HF_HOME") or f"{os.environ.get('XDG_CACHE_HOME') or '~/.cache'}/huggingface"
    return Path(os.path.expandvars(home)).expanduser() / "hub"


def cached_snapshot(repo_id: str) -> Path | None:
    """Folder of a complete copy of ``repo_id`` in the local hub cache, without any request; None when there is none."""
    base = hub_cache() / f"models--{repo_id.replace('/', '--')}"
    try:
        current = (base / "refs" / "main").read_text(encoding="utf-8").strip()
        candidates = [base / "snapshots" / current]
    except (OSError, ValueError):
        candidates = sorted((base / "snapshots").glob("*"))
    for folder in candidates:
        if (folder / CONFIG).is_file():
            try:
                _weight_files(folder)
            except ModelError:
                continue
            return folder
    return None


def endpoint() -> str:
    """Address of the hub, ``HF_ENDPOINT`` or the public one."""
    return (os.environ.get("HF_ENDPOINT") or "https://huggingface.co").rstrip("/")


def is_offline() -> bool:
    """Whether the environment forbids requests (``HF_HUB_OFFLINE``, ``TRANSFORMERS_OFFLINE``)."""
    return any(os.environ.get(name, "").upper() in _TRUE for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"))


def reachable(timeout: float = 3.0) -> bool:
    """Whether the hub answers a request within ``timeout`` seconds, through the environment's proxies.

    The request runs in a thread of its own because looking a host name up cannot be given a time limit.
    """
    if is_offline():
        return False
    import http.client
    import urllib.error
    import urllib.request

    answered = threading.Event()

    def probe() -> None:
        try:
            request = urllib.request.Request(endpoint(), method="HEAD")
            with urllib.request.build_opener().open(request, timeout=timeout):
                answered.set()
        except urllib.error.HTTPError as error:
            if error.code < 500:  # it answered, if only to say that its front page is not for us
                answered.set()
        except (OSError, ValueError, http.client.HTTPException):
            return

    thread = threading.Thread(target=probe, daemon=True, name="headlens-hub-probe")
    thread.start()
    thread.join(timeout)
    return answered.is_set()


def resolve(repo_id: str, asked: str | None = None) -> Path:
    """Local folder of a hub model: the cached copy, else a download of its config, weights and tokenizer.

    The config, the sizes and the presence of safetensors are checked before weights are fetched.

    Args:
        repo_id: where it is on the hub.
        asked: what the user called it, for messages; ``repo_id`` by default.

    Raises:
        ModelError: not a hub id, unknown there, no network (known within 5 s), not readable by HeadLens, or too big.
    """
    from headlens.models.catalogue import suggest

    if not is_repo_id(repo_id):
        raise ModelError(f"unknown model {repo_id!r}: {suggest(repo_id)}")
    snapshot = cached_snapshot(repo_id)
    if snapshot is not None:
        return snapshot
    check_reachable(asked or repo_id)
    return _download(repo_id)


def check_reachable(asked: str) -> None:
    """Refuse a model that would have to be downloaded where the hub does not answer.

    Args:
        asked: what the user called it, for the message.

    Raises:
        ModelError: no network, or requests are forbidden; known within 3 s.
        LimitError: this server downloads nothing.
    """
    from headlens.models.catalogue import suggest
    from headlens.server import limits

    limits.current().check_downloads(asked)
    if not reachable():
        reason = "HF_HUB_OFFLINE is set" if is_offline() else "there is no network to the hub"
        raise ModelError(f"no model {asked!r} on this machine and {reason}: {suggest(asked)}")


def _download(repo_id: str) -> Path:
    """Fetch what is needed of ``repo_id`` into the hub cache, config first."""
    import glob

    from huggingface_hub import HfApi
    from huggingface_hub.errors import GatedRepoError, HfHubHTTPError, RepositoryNotFoundError

    from headlens.models.catalogue import suggest
    from headlens.models.quiet import quiet

    # The base class of the HTTP library's errors; which library that is depends on the version of huggingface_hub.
    http_error: Any = HfHubHTTPError.__bases__[0]
    api = HfApi(endpoint=endpoint(), library_name="headlens")
    cache = hub_cache()
    try:
        with quiet():
            info = api.model_info(repo_id, files_metadata=True, timeout=10)
            wanted = _wanted_files(repo_id, info)
            config = api.hf_hub_download(repo_id, CONFIG, revision=info.sha, cache_dir=cache)
            check_config(read_json(Path(config)), repo_id)
            patterns = [glob.escape(file) for file in wanted]
            # revision "main" rather than the hash, so that the cache notes what "main" is for later lookups
            return Path(api.snapshot_download(repo_id, revision="main", allow_patterns=patterns, cache_dir=cache))
    except GatedRepoError as error:
        raise ModelError(f"{repo_id} asks for its licence to be accepted on the hub and for `hf auth login`") from error
    except RepositoryNotFoundError as error:
        raise ModelError(f"the hub has no model {repo_id!r} (or it is private): {suggest(repo_id)}") from error
    except (http_error, OSError, ValueError) as error:
        raise ModelError(f"downloading {repo_id} failed ({' '.join(str(error).split())[:160]}); try again") from error


def _wanted_files(repo_id: str, info: ModelInfo) -> list[str]:
    """Names of the files to fetch, after a look at what there is and how much memory and disk the weights take.

    Raises:
        ModelError: no config, no safetensors, or too big.
    """
    import shutil

    from headlens.models.sizes import check_fits

    files = {sibling.rfilename: sibling.size or 0 for sibling in info.siblings or []}
    if CONFIG not in files:
        raise ModelError(f"{repo_id} on the hub has no config.json, so it is not a transformers model")
    shards = [file for file in files if _SHARD.fullmatch(file)]
    weights = [WEIGHTS] if WEIGHTS in files else shards if INDEX in files else []
    if not weights:
        raise ModelError(
            f"{repo_id} on the hub has no safetensors weights, the only kind HeadLens reads; convert it "
            "(load it in transformers and save_pretrained) and give the folder"
        )
    needed = sum(files[file] for file in weights)
    check_fits(repo_id, needed)
    existing = next(folder for folder in (hub_cache(), *hub_cache().parents) if folder.exists())
    free = shutil.disk_usage(existing).free
    if needed > free:
        raise ModelError(f"{repo_id} takes {needed / 1e9:.1f} GB on disk, {free / 1e9:.1f} GB free in {hub_cache()}")
    plain = [file for file in files if file in _PLAIN_FILES and file not in (WEIGHTS, INDEX)]
    return [*plain, *weights, *([INDEX] if weights is shards else [])]
