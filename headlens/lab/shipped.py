"""Runs that come with HeadLens: data with the command that made it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from headlens.errors import HeadlensError
from headlens.lab.results import RunResult, versions
from headlens.paths import asset_dir

BITS, INITIAL, LANGUAGE, SHARING = "bits.json", "initial.json", "language.json", "sharing.json"
DIGITS = 5


def folder() -> Path:
    """Where the lab's data lies."""
    return asset_dir() / "lab"


@dataclass(frozen=True)
class Shipped:
    """Runs from a file.

    Attributes:
        runs: the results.
        command: what made them.
        made: the day, ``2026-11-30``.
        versions: of the libraries that computed them.
    """

    runs: tuple[RunResult, ...]
    command: str
    made: str
    versions: dict[str, str]


@cache
def shipped_runs(name: str = BITS) -> Shipped | None:
    """The runs of a file in ``assets/lab``; None where it has not been made yet.

    Raises:
        HeadlensError: the file cannot be read.
    """
    path = folder() / name
    try:
        plain = json.loads(path.read_text(encoding="utf-8"))
        runs = tuple(RunResult.from_dict(run) for run in plain["runs"])
        return Shipped(runs, plain["command"], plain["made"], plain["versions"])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise HeadlensError(f"{path} cannot be read; get it from the repository again, or run its command") from error


@cache
def shipped_table(name: str) -> dict[str, Any] | None:
    """A file of ``assets/lab`` with ``command``, ``made``, ``versions`` and ``rows``; None where it does not exist yet.

    Raises:
        HeadlensError: the file cannot be read.
    """
    path = folder() / name
    try:
        plain = json.loads(path.read_text(encoding="utf-8"))
        return {key: plain[key] for key in ("command", "made", "versions", "rows")} | plain
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise HeadlensError(f"{path} cannot be read; get it from the repository again, or make it anew") from error


def made_by(table: dict[str, Any]) -> str:
    """When, how and with what a file was made, for a caption."""
    libraries = ", ".join(f"{name} {version}" for name, version in table["versions"].items())
    return f"made on {table['made']} by `{table['command']}` ({libraries})"


def save_runs(name: str, runs: Sequence[RunResult], *, command: str, made: str) -> None:
    """Writes ``assets/lab/<name>``, whole or not at all; numbers are rounded to five digits."""
    # Specs stay exact, since runs are found by them.
    rows = [
        json.dumps({**_rounded(plain := run.to_dict()), "spec": plain["spec"]}, separators=(",", ":")) for run in runs
    ]
    head = json.dumps({"command": command, "made": made, "versions": versions()})
    folder().mkdir(parents=True, exist_ok=True)
    write(folder() / name, head[:-1] + ', "runs": [\n' + ",\n".join(rows) + "\n]}\n")


def write(path: Path, text: str) -> None:
    """Writes a file beside its place and puts it there at once."""
    temporary = path.with_name(f".{path.name}.part")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, DIGITS) if abs(value) < 1e6 else value
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    return [_rounded(item) for item in value] if isinstance(value, (list, tuple)) else value
