"""The values that travel in the URL: their names, defaults, and which values of each are accepted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headlens.errors import HeadlensError
from headlens.server import limits
from headlens.ui.methods import METHOD_WORDS

MAX_VALUE = 20_000
"""Longest value that is read from a URL."""


@dataclass(frozen=True)
class Parameter:
    """One value that travels in the URL.

    Attributes:
        name: in the URL and, as ``hl_NAME``, in the session's state.
        default: its value where nothing was chosen.
        check: gives the value to keep, or raises HeadlensError.
    """

    name: str
    default: Callable[[], str]
    check: Callable[[str], str]


def _one_of(options: Callable[[], list[str]]) -> Callable[[str], str]:
    def check(value: str) -> str:
        if value not in options():
            raise HeadlensError(f"{value[:40]!r} is not one of {', '.join(options())}")
        return value

    return check


def _model(value: str) -> str:
    if not value.strip() or len(value) > 500:
        raise HeadlensError("not a model name")
    limits.current().check_model(value.strip())
    return value.strip()


def _default_model() -> str:
    from headlens.models.catalogue import default_model, entries

    usual, allowed = default_model(), limits.current()
    if allowed.offers(usual):
        return usual
    return next((entry.name for entry in entries() if entry.available and allowed.offers(entry.name)), usual)


def _sets() -> list[str]:
    from headlens.data.builtin import index

    return [entry.name for entry in index()]


PARAMETERS: tuple[Parameter, ...] = (
    Parameter("model", _default_model, _model),
    Parameter("method", lambda: "ablation", _one_of(lambda: list(METHOD_WORDS))),
    Parameter("data", lambda: "", _one_of(_sets)),
    Parameter("ablation", lambda: "zero", _one_of(lambda: ["zero", "mean", "resample"])),
    Parameter("unit", lambda: "head", _one_of(lambda: ["head", "kv"])),
    Parameter("off", lambda: "none", lambda value: value[:MAX_VALUE]),
    Parameter("present", lambda: "", _one_of(lambda: ["1", "2", "3", "4", "5"])),
)
