"""Where HeadLens keeps its files: results in the user's cache, progress in the user's data, assets with the program.

Nothing here creates a folder; whoever writes first does.
"""

from __future__ import annotations

import os
from pathlib import Path

import headlens
from headlens.errors import StoreError

BUNDLED = "_app"
"""Folder in an installed package that holds what lies beside it in the repository; setup.py puts it there."""
CACHE_VARIABLE = "HEADLENS_CACHE"
STORE_VARIABLE = "HEADLENS_STORE"
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
    return _named(variable, chosen)


def _named(variable: str, chosen: str) -> Path:
    try:
        return Path(chosen).expanduser().absolute()
    except RuntimeError as error:
        raise StoreError(f"{variable}={chosen}: no home folder is known for that user; give the full path") from error


def store_dir() -> Path:
    """Folder of the result store (see :mod:`headlens.store`)."""
    return cache_dir() / "store"


def store_place() -> Path | str:
    """Where results are kept: the folder or fsspec URL that ``HEADLENS_STORE`` names, else :func:`store_dir`.

    Raises:
        StoreError: a folder of a user that this machine does not know.
    """
    chosen = os.environ.get(STORE_VARIABLE, "")
    return chosen if "://" in chosen else _named(STORE_VARIABLE, chosen) if chosen else store_dir()


def models_cache_dir() -> Path:
    """Folder of models converted once into a form that loads fast."""
    return cache_dir() / "models"


def home() -> Path:
    """Folder of ``app.py``, ``pages`` and ``assets``: inside the package where it was installed from a wheel, else
    (a checkout, an editable install) the one beside it."""
    package = Path(headlens.__file__).resolve().parent
    inside = package / BUNDLED
    return inside if inside.is_dir() else package.parent


def is_checkout() -> bool:
    """Whether this runs from a copy of the repository, where ``make`` and the requirements files are at hand."""
    return (home() / "pyproject.toml").is_file()


def asset_dir() -> Path:
    """Folder ``assets``: trained models, texts and pictures that come with HeadLens. Never written by the app."""
    return home() / "assets"
