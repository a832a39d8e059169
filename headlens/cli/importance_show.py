"""What ``headlens importance`` prints of its scores."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from headlens.cli.forecast import SWEEPING
from headlens.cli.output import table
from headlens.cli.progress import clock

if TYPE_CHECKING:
    from rich.console import Console

    from headlens.importance import Method
    from headlens.scores import HeadScores

SHOWN = 10
"""Heads shown at each end of the ranking."""


def rows(scores: HeadScores) -> list[dict[str, Any]]:
    return [
        {
            "site": site,
            "layer": layer,
            "head": column,
            "score": scores.values[site][layer, column],
            "sem": scores.sem[site][layer, column],
            "n": scores.n or None,
        }
        for site, layer, column in scores.columns()
    ]


def show(console: Console, scores: HeadScores, method: Method, path: Path | None) -> None:
    ranked = scores.ranked()
    # Where the data tell nothing, showing both ends would be ranking noise; the file has the numbers all the same.
    parts = {} if scores.no_signal else {"most important": ranked[:SHOWN], "least important": ranked[SHOWN:][-SHOWN:]}
    for title, columns in parts.items():
        if not columns:
            continue
        console.print(title, style="bold", markup=False)
        rows = [
            (
                scores.topology.label(*column, scores.unit),
                scores.values[column[0]][column[1:]],
                scores.sem[column[0]][column[1:]],
            )
            for column in columns
        ]
        table(console, ("head", "score", "std. error"), rows, numbers=("score", "std. error"))
    console.print(_unit_note(scores, method), markup=False)
    facts = scores.provenance
    where = "" if path is None else f" Written to {path} and {path.with_suffix('.json').name}."
    console.print(
        f"{len(ranked)} {'heads' if scores.unit == 'head' else 'KV groups'}, {scores.n or 'no'} examples, "
        f"computed in {clock(facts['seconds'])}, {facts['cached']} units from the store.{where}",
        markup=False,
    )


def _unit_note(scores: HeadScores, method: Method) -> str:
    """What one point of a score is."""
    from headlens.metrics import METRICS

    if method.name == SWEEPING and scores.metric is not None:
        metric = METRICS[scores.metric]
        turn = "fall" if metric.higher_is_better else "rise"
        return (
            f"Score: {turn} of {metric.title.lower()} ({metric.unit}) when the head is off; positive: the head helps."
        )
    return f"Score: {method.formula}; larger: keep the head."
