"""Runs as CSV text: one line a run, or one line a point of a learning curve."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from typing import Any

from headlens.lab.results import RunResult
from headlens.lab.study import run_row


def runs_csv(results: Iterable[RunResult]) -> str:
    """One line a run; lists are joined by spaces, what does not apply is empty."""
    rows = [{name: _cell(value) for name, value in run_row(result).items()} for result in results]
    return _text(rows)


def curves_csv(results: Iterable[RunResult]) -> str:
    """``kind,from_heads,heads,seed,step,bits``: mean training loss since the point before."""
    rows: list[dict[str, Any]] = []
    for result in results:
        run = {name: _cell(value) for name, value in run_row(result).items()}
        about = {name: run[name] for name in ("kind", "from_heads", "heads", "seed")}
        rows.extend({**about, "step": step, "bits": bits} for step, bits in result.curve)
    return _text(rows)


def _cell(value: Any) -> Any:
    if value is None:
        return ""
    if isinstance(value, dict):
        return " ".join(f"{name}:{item}" for name, item in value.items())
    return " ".join(map(str, value)) if isinstance(value, list) else value


def _text(rows: list[dict[str, Any]]) -> str:
    out = io.StringIO()
    if rows:
        writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return out.getvalue()
