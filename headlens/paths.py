"""Where HeadLens keeps its files: results in the user's cache, progress in the user's data, assets beside the package.

Nothing here creates a folder; whoever writes first does.
"""

from __future__ import annotations

import os
from pathlib import Path

from headlens.errors import StoreError

CACHE_VARIABLE = "HEADLENS_CACHE"
DATA_VARIABLE = "HEADLENS_DATA"


def cache_dir() -> Path:
    """Folder for everything that can be computed again, as an absolute path.

    ``HEADLENS_CACHE`` wins when it is set and not empty (``~`` is expanded, a relative path counts from the current
    folder); else it is the platform's user cache folder.

    Raises:
        StoreError: ``HEADLENS_CACHE`` starts with the ``~name`` of a user this machine does not know.
    """
    return _folder(CACHE_VARIABLE, "user_cache_path")


def data_dir() -> Path:
    """Folder for what cannot be computed again (how far somebody has learned), as an absolute path.

    ``HEADLENS_DATA`` wins when it is set and not empty; else it is the platform's user data folder.

    Raises:
        StoreError: ``HEADLENS_DATA`` starts with the ``~name`` of a user this machine does not know.
    """
    return _folder(DATA_VARIABLE, "user_data_path")


def _folder(variable: str, usual: str) -> Path:
    chosen = os.environ.get(variable, "")
    if not chosen:
        import platformdirs

        return getattr(platformdirs, usual)("headlens")
    try:
        return Path(chosen).expanduser().absolute()
    except RuntimeError as error:
        raise StoreError(f"{variable}={chosen}: no home folder is known for that user; give the full path") from error


def store_dir() -> Path:
    """Folder of the result store (see :mod:`headlens.store`)."""
    return cache_dir() / "store"


def models_cache_dir() -> Path:
    """Folder of models converted once into a form that loads fast."""
    return cache_dir() / "models"


def asset_dir() -> Path:
    """Folder ``assets`` beside the package: trained models, texts and pictures that come with HeadLens."""
    return Path(__file__).resolve().parent.parent / "assets"
