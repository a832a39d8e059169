"""``headlens importance --question``: which heads are the top K (or the bottom share), with few exact measurements."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headlens.cli.forecast import SWEEPING, fitting, foresee
from headlens.cli.output import emit, say
from headlens.cli.progress import clock
from headlens.errors import Cancelled, HeadlensError

if TYPE_CHECKING:
    from rich.console import Console

    from headlens.importance import Method, Request
    from headlens.importance.budgeted import Answer
    from headlens.importance.question import Question
    from headlens.lens import Lens

LOCAL = "local"

Asked = Annotated[
    str | None,
    typer.Option(
        "--question",
        metavar="top:K|bottom:F",
        help="ablation: name the top K heads or the bottom share F with few exact measurements: the gradient first, "
        "then only heads whose interval crosses the cut.",
    ),
]


def parse(text: str | None, method: str, normalize: str, engine: str = LOCAL) -> Question | None:
    """The question; raises HeadlensError where it is none or goes with another method."""
    if text is None:
        return None
    from headlens.importance.question import parse_question

    found = parse_question(text)
    if method != SWEEPING or normalize != "none":
        raise HeadlensError("--question is about exact scores; use it with --method ablation, without --normalize")
    if engine != LOCAL:
        raise HeadlensError(f"--question decides step by step on this machine; leave out --engine {engine}")
    return found


def find(lens: Lens, method: Method, request: Request, question: Question) -> Answer:
    """The answer; raises Cancelled on Ctrl-C, with how to go on."""
    from headlens.importance.budgeted import answer

    scale = foresee(lens, method, request)
    try:
        return fitting(lambda: answer(lens, request, question), request.batch_size, scale)
    except (KeyboardInterrupt, Cancelled) as stop:
        raise Cancelled("heads that were measured are stored; the same command resumes there") from stop


def give(found: Answer, target: Path | None, as_json: bool) -> None:
    """Writes and prints the answer."""
    beside = None if target is None else _save(found, target)
    say(found.error_risk())
    result = {"out": target, "json": beside, **_facts(found)}
    if target is None:
        result["scores"] = _rows(found)
    emit(result, as_json, lambda console: _show(console, found, target))


def _facts(found: Answer) -> dict[str, Any]:
    provenance = {**found.estimate.describe(), "method": SWEEPING, "ablation": "zero", "reliability": None}
    return {
        **provenance,
        "stable": None,
        "signed": False,
        "question": str(found.question),
        "answer": found.labels,
        "heads": len(found.exact),
        "measured": found.measured,
        "calibration": int(found.calibration.sum()),
        "calibration_settled_by_estimate": found.alone,
        "calibration_settled_wrongly": found.wrong,
        "forwards": found.forwards,
        "forwards_of_full_sweep": found.all_forwards,
        "error_risk": found.error_risk(),
        "baseline": found.baseline,
        "seconds": round(found.seconds, 3),
        "cached": found.cached,
    }


def _rows(found: Answer) -> list[dict[str, Any]]:
    """As in the CSV of a full sweep; ``score`` is the estimate where ``measured`` is false."""
    guess = found.estimate.flat()
    rows = []
    for number, (site, layer, column) in enumerate(found.estimate.columns()):
        known = bool(math.isfinite(found.exact[number]))
        rows.append(
            {
                "site": site,
                "layer": layer,
                "head": column,
                "score": found.exact[number] if known else guess[number],
                "sem": found.sem[number],
                "n": found.estimate.n,
                "measured": known,
                "low": found.low[number],
                "high": found.high[number],
                "answer": bool(found.chosen[number]),
            }
        )
    return rows


def _save(found: Answer, path: Path) -> Path:
    import pandas as pd

    from headlens.cli.output import plain
    from headlens.scores import write_text

    beside = path.with_suffix(".json")
    write_text(path, pd.DataFrame(_rows(found)).to_csv(index=False))
    write_text(beside, json.dumps(plain(_facts(found)), indent=1, allow_nan=False) + "\n")
    return beside


def _show(console: Console, found: Answer, path: Path | None) -> None:
    ends = {"top": "most important", "bottom": "least important"}
    labels = found.labels
    console.print(f"The {len(labels)} {ends[found.question.end]}: {', '.join(labels)}", markup=False)
    console.print(found.saved(), markup=False)
    where = "" if path is None else f" Written to {path} and {path.with_suffix('.json').name}."
    console.print(
        f"Score: rise of loss (nats per prediction) when the head is off; {found.estimate.n} examples, computed in "
        f"{clock(found.seconds)}, {found.cached} heads from the store.{where}",
        markup=False,
    )
