"""What goes to stdout: one JSON object, or text for people. And single lines for stderr."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from io import TextIOWrapper
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

_PIPE_WIDTH = 160
"""Columns when stdout is no terminal: nobody can say how wide the reader is."""


def emit(result: Mapping[str, Any], as_json: bool, show: Callable[[Console], None]) -> None:
    """Prints a command's result.

    Args:
        result: the JSON object; NaN and infinities become null, numpy numbers plain ones.
        as_json: print it as JSON, in one line.
        show: prints it for people otherwise.
    """
    if as_json:
        sys.stdout.write(json.dumps(plain(result), allow_nan=False) + "\n")
        return
    from rich.console import Console

    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal that lacks a letter still shows the rest
    show(Console(file=sys.stdout, width=None if sys.stdout.isatty() else _PIPE_WIDTH, highlight=False))


def plain(value: Any) -> Any:
    """``value`` in the types that JSON has; what is not finite becomes None."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, bool) or value is None or isinstance(value, (int, str)):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if hasattr(value, "tolist"):  # numpy numbers and arrays
        return plain(value.tolist())
    return str(value)


def table(
    console: Console, columns: Sequence[str], rows: Iterable[Sequence[Any]], *, numbers: Iterable[str] = ()
) -> None:
    """Prints a table; columns named in ``numbers`` are aligned to the right."""
    from rich import box
    from rich.table import Table

    right = set(numbers)
    drawn = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        drawn.add_column(column, justify="right" if column in right else "left", overflow="fold")
    for row in rows:
        drawn.add_row(*(_cell(value) for value in row))
    console.print(drawn, markup=False)


def _cell(value: Any) -> Any:
    from rich.text import Text

    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return Text("-")
    if isinstance(value, bool):
        return Text("yes" if value else "no")
    return Text(f"{value:.5g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value))


def say(text: str) -> None:
    """One line on stderr."""
    with suppress(OSError):
        sys.stderr.write(" ".join(text.split()) + "\n")
        sys.stderr.flush()
