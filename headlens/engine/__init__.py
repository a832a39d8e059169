"""Where units of work are done: in this process, or on a Ray cluster. Nothing here imports torch or ray."""

from __future__ import annotations

from headlens.engine.base import Engine, Job, Recipe, WorkerState, current, using
from headlens.engine.choose import ENGINES, engine_for, is_installed
from headlens.engine.local import LocalEngine

__all__ = [
    "ENGINES",
    "Engine",
    "Job",
    "LocalEngine",
    "Recipe",
    "WorkerState",
    "current",
    "engine_for",
    "is_installed",
    "using",
]
