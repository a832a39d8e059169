"""``headlens methods``: the ways to score heads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headlens.cli.options import AsJson
from headlens.cli.output import emit
from headlens.cli.progress import computing

if TYPE_CHECKING:
    from rich.console import Console

NAME = "methods"


def run(as_json: AsJson = False) -> None:
    """List the importance methods, with formula, source and cost."""
    with computing() as reporter:
        reporter.phase("looking up the methods")
        from headlens.importance import METHODS

        rows = [method.describe() for method in METHODS.values()]
    emit({"methods": rows}, as_json, lambda console: _show(console, rows))


def _show(console: Console, rows: list[dict[str, Any]]) -> None:
    for row in rows:
        console.print(f"{row['name']}: {row['title']}", style="bold", markup=False)
        console.print(f"  score   {row['formula']}", markup=False)
        console.print(f"  needs   {', '.join(row['needs']) or 'the weights alone'}; cost: {row['cost']}", markup=False)
        console.print(f"  sign    {'negative: the head harms' if row['signed'] else 'never negative'}", markup=False)
        console.print(f"  source  {row['source']}\n", markup=False)
