"""What this server allows: models, downloads, training, sizes. Read from the environment, or from Streamlit's secrets.

Every action asks here by itself, so a limit holds for links, uploads and the command line as well as for widgets. The
defaults are those of a program on one's own machine; ``HEADLENS_PROFILE=demo`` is for a page that anybody may open. A
single ``HEADLENS_...`` variable changes one limit of the profile. A value that cannot be read is an error wherever a
limit is asked for, so that a slip of the pen never opens a server.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from functools import lru_cache
from typing import Any

from headlens.errors import HeadlensError
from headlens.server.profile import MB, PROFILES, LimitError, Limits

__all__ = ["PROFILES", "VARIABLES", "LimitError", "Limits", "configure", "current"]

PROFILE_VARIABLE = "HEADLENS_PROFILE"
_ON = ("on", "1", "yes", "true")
_OFF = ("off", "0", "no", "false")
_secrets: dict[str, str] = {}


def current() -> Limits:
    """The limits that hold now.

    Raises:
        HeadlensError: a value that cannot be read; names the variable.
    """
    found = dict(_secrets)
    found.update((name, value) for name, value in os.environ.items() if name in VARIABLES)
    return _parsed(tuple(sorted(found.items())))


def configure(secrets: Mapping[str, Any]) -> None:
    """Takes ``HEADLENS_...`` values from elsewhere than the environment, which wins; others are ignored."""
    _secrets.clear()
    for name, value in secrets.items():
        if name in VARIABLES:
            _secrets[name] = ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _flag(text: str) -> bool:
    if text.strip().lower() in (*_ON, *_OFF):
        return text.strip().lower() in _ON
    raise ValueError("write on or off")


def _count(text: str, factor: int = 1, least: int = 1) -> int:
    value = int(text.strip().replace("_", ""))
    if value < least:
        raise ValueError(f"write a whole number of at least {least}")
    return value * factor


def _names(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


VARIABLES: Mapping[str, tuple[str, Callable[[str], Any]]] = {
    PROFILE_VARIABLE: ("profile", str.strip),
    "HEADLENS_MODELS": ("models", _names),
    "HEADLENS_FOLDERS": ("folders", _flag),
    "HEADLENS_DOWNLOADS": ("downloads", _flag),
    "HEADLENS_TRAINING": ("training", _flag),
    "HEADLENS_PROGRESS": ("progress", _flag),
    "HEADLENS_PROMPT_CHARACTERS": ("prompt_characters", _count),
    "HEADLENS_PROMPT_TOKENS": ("prompt_tokens", lambda text: _count(text, least=2)),
    "HEADLENS_TEXT_CHARACTERS": ("text_characters", _count),
    "HEADLENS_UPLOAD_KB": ("upload_bytes", lambda text: _count(text, 1024)),
    "HEADLENS_WAITING": ("waiting", _count),
    "HEADLENS_AT_ONCE": ("at_once", _count),
    "HEADLENS_MODEL_MB": ("model_bytes", lambda text: _count(text, MB)),
    "HEADLENS_RESULT_MB": ("result_bytes", lambda text: _count(text, MB)),
    "HEADLENS_STORE_MB": ("store_bytes", lambda text: _count(text, MB)),
}
"""Which variable sets what, and how it is read."""


@lru_cache(maxsize=8)
def _parsed(values: tuple[tuple[str, str], ...]) -> Limits:
    given = {name: value for name, value in values if value.strip()}
    profile = given.pop(PROFILE_VARIABLE, "own").strip().lower()
    if profile not in PROFILES:
        raise HeadlensError(f"{PROFILE_VARIABLE}={profile[:40]}: no such profile; choose one of {', '.join(PROFILES)}")
    changes: dict[str, Any] = {}
    for name, text in given.items():
        field, read = VARIABLES[name]
        try:
            changes[field] = read(text)
        except ValueError as error:
            advice = str(error) if str(error).startswith("write") else "write a whole number"
            raise HeadlensError(f"{name}={text[:40]}: cannot be read; {advice}") from error
    return replace(PROFILES[profile], **changes)


assert {field for field, _ in VARIABLES.values()} == {field.name for field in fields(Limits)}
