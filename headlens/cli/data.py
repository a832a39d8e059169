"""``headlens data``: the data sets that come with HeadLens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headlens.cli.options import AsJson
from headlens.cli.output import emit, table

if TYPE_CHECKING:
    from rich.console import Console

NAME = "data"


def run(as_json: AsJson = False) -> None:
    """List the built-in data sets.

    The first one that fits a model's task is its default.
    """
    from headlens.data.builtin import describe_sets

    sets = describe_sets()
    emit({"sets": sets}, as_json, lambda console: _show(console, sets))


def _show(console: Console, sets: list[dict[str, Any]]) -> None:
    rows = [
        (row["name"], row["task"], row["splits"]["score"], row["splits"]["held-out"], row["tokens"], row["description"])
        for row in sets
    ]
    columns = ("name", "task", "score", "held-out", "tokens", "description")
    table(console, columns, rows, numbers=("score", "held-out", "tokens"))
    console.print("Examples a half; tokens are counted roughly, without any model's tokenizer.", markup=False)
