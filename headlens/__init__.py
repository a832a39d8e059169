"""HeadLens: which attention heads of a transformer matter, measured on the model in front of you.

Importing this package is cheap: torch and transformers are imported when a model is first opened.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headlens.errors import HeadlensError
    from headlens.heads import Head, HeadSet
    from headlens.lens import Lens, open_model
    from headlens.models.plain import load
    from headlens.scores import HeadScores

__version__ = "0.1.0"

_WHERE = {
    "Head": "headlens.heads",
    "HeadScores": "headlens.scores",
    "HeadSet": "headlens.heads",
    "HeadlensError": "headlens.errors",
    "Lens": "headlens.lens",
    "load": "headlens.models.plain",
    "open_model": "headlens.lens",
}

__all__ = ["Head", "HeadScores", "HeadSet", "HeadlensError", "Lens", "__version__", "load", "open_model"]


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        return getattr(import_module(_WHERE[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
