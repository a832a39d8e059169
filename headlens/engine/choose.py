"""From ``--engine`` to an engine."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal, get_args

from headlens.engine.local import LocalEngine
from headlens.errors import HeadlensError

if TYPE_CHECKING:
    from headlens.engine.base import Engine

EngineName = Literal["local", "ray"]
ENGINES: tuple[EngineName, ...] = get_args(EngineName)
INSTALL = "pip install -r requirements-cluster.txt"


def is_installed() -> bool:
    """Whether Ray can be imported; nothing is imported."""
    return find_spec("ray") is not None


def engine_for(name: str, address: str | None = None, workers: int | None = None) -> Engine:
    """The engine of that name, connected.

    Args:
        name: one of :data:`ENGINES`.
        address: HOST:PORT of a Ray cluster, or ``auto`` for the one that this machine is part of; None: what
            ``RAY_ADDRESS`` says, else a Ray of our own on this machine for as long as it is needed.
        workers: at most so many; None: as many as there are cores (GPUs, where the model is on one).

    Raises:
        HeadlensError: an unknown engine, Ray is not installed, or no cluster answers.
    """
    if name == "local":
        if address is not None or workers is not None:
            raise HeadlensError("--address and --workers are for --engine ray; add it, or leave them out")
        return LocalEngine()
    if name != "ray":
        raise HeadlensError(f"unknown engine {name!r}; choose one of {', '.join(ENGINES)}")
    if not is_installed():
        raise HeadlensError(f"--engine ray needs Ray, which is not installed; {INSTALL}")
    from headlens.engine.ray import RayEngine

    return RayEngine(address, workers)
