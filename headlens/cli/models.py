"""``headlens models``: what can be opened by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headlens.cli.options import AsJson
from headlens.cli.output import emit, table

if TYPE_CHECKING:
    from rich.console import Console

    from headlens.models.catalogue import Entry

NAME = "models"


def run(as_json: AsJson = False) -> None:
    """List the models known by name, and which are at hand."""
    from headlens.models.catalogue import entries

    known = entries()
    emit({"models": [entry.to_dict() for entry in known]}, as_json, lambda console: _show(console, known))


def _show(console: Console, known: list[Entry]) -> None:
    rows = [
        (entry.name, entry.title, entry.task, _heads(entry), entry.parameters, entry.available, entry.note)
        for entry in known
    ]
    columns = ("name", "title", "task", "layers x heads", "parameters", "at hand", "note")
    table(console, columns, rows, numbers=("parameters",))
    console.print("Also any local folder written by save_pretrained, a GGUF file, or a hub id.", markup=False)


def _heads(entry: Entry) -> str:
    if entry.layers is None or entry.heads is None:
        return "-"
    shared = "" if entry.kv_heads in (None, entry.heads) else f" ({entry.kv_heads} KV)"
    return f"{entry.layers} x {entry.heads}{shared}"
