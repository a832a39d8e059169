"""``headlens families``: the same few figures for every model at hand, with the published number beside each."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headlens.cli.inputs import check_model, check_out
from headlens.cli.options import AsJson, NoResume, Seed
from headlens.cli.output import emit, say, table
from headlens.cli.progress import computing
from headlens.errors import Cancelled, HeadlensError

if TYPE_CHECKING:
    from rich.console import Console

    from headlens.families.measures import Measure
    from headlens.families.row import Row
    from headlens.families.run import Found

NAME = "families"


def run(
    models: Annotated[
        list[str] | None, typer.Argument(metavar="[MODEL]...", help="Models. Default: every one that is at hand.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE.csv", help="A row for each model and figure.")
    ] = None,
    tokens: Annotated[
        int | None,
        typer.Option("--tokens", min=16, metavar="N", help="Tokens of each half. Default: 300 to 4000, by size."),
    ] = None,
    seed: Seed = 0,
    no_resume: NoResume = False,
    as_json: AsJson = False,
) -> None:
    """Compare models: heads that can go, layers with one head, whether methods and texts agree, cross-attention.

    The figures are those of `headlens claims` (budget: 0.1 nats of loss; drift of bare encoders: 0.05), chosen on the
    score half, reported on the held-out half. Finished figures are kept, so a run that was stopped goes on.
    """
    target = None if out is None else check_out(out, ".csv")
    for name in models or ():
        check_model(name)
    with computing() as reporter:
        from headlens.estimates import short
        from headlens.families.cost import guess
        from headlens.families.row import to_frame
        from headlens.families.run import Options, Watch, at_hand, kept_rows, measure_all
        from headlens.models import catalogue
        from headlens.scores import write_text
        from headlens.store import Store

        store, options = Store(), Options(tokens, seed)
        names = list(dict.fromkeys(models or at_hand()))
        kept = {} if no_resume else kept_rows(names, options, store)
        missing = [name for name in names if name not in kept]
        seconds = sum(sum(guess(catalogue.find(name), tokens).values()) for name in missing)
        if missing:
            say(f"{len(missing)} of {len(names)} models to measure, about {short(seconds)}")
        reporter.phase("families")
        done: list[str] = []

        def phase(title: str) -> None:
            reporter.title = title

        def finished(row: Row) -> None:
            done.append(row.model)
            say(f"{row.model}: {row.findings['removable'].sentence}")

        try:
            found = measure_all(
                names, options, store=store, resume=not no_resume, watch=Watch(reporter, phase, finished)
            )
        except (KeyboardInterrupt, Cancelled) as stop:
            told = f"{len(kept) + len(done)} of {len(names)} models are kept"
            raise Cancelled(f"{told}; the same command without --no-resume goes on from there") from stop
        if not found.rows:
            raise HeadlensError(next(iter(found.skipped.values()), "no model is at hand"))
        if target is not None:
            write_text(target, to_frame(list(found.rows.values())).to_csv(index=False))
    result = _result(found, target, options.seed)
    emit(result, as_json, lambda console: _show(console, found, target))


def _result(found: Found, target: Path | None, seed: int) -> dict[str, Any]:
    from headlens.families.measures import MEASURES
    from headlens.families.sentences import sentence

    rows = list(found.rows.values())
    return {
        "models": [{**row.to_json(), "published": {one.name: row.published(one) for one in MEASURES}} for row in rows],
        "skipped": found.skipped,
        "sentences": {measure.name: sentence(measure, rows) for measure in MEASURES},
        "seed": seed,
        "out": target,
    }


def _show(console: Console, found: Found, target: Path | None) -> None:
    from headlens.families.measures import MEASURES
    from headlens.families.sentences import sentence

    rows = list(found.rows.values())
    columns = ("model", "kind", "heads", *(measure.title.lower() for measure in MEASURES))
    cells = [(row.model, row.kind_title, row.heads, *(number(row, measure) for measure in MEASURES)) for row in rows]
    table(console, columns, cells, numbers=columns[2:])
    for measure in MEASURES:
        console.print(sentence(measure, rows), markup=False)
    for name, why in found.skipped.items():
        console.print(f"Left out: {name} ({why}).", markup=False)
    console.print("Published, for models of the same kind:", markup=False)
    told: dict[str, None] = {}
    for measure in MEASURES:
        for row in rows:
            other = row.counterpart(measure)
            if other is not None:
                told[f"- {measure.title.lower()}, {row.kind_title}: {other.published.line()}"] = None
    for line in told:
        console.print(line, markup=False)
    if target is not None:
        console.print(f"Written to {target}.", markup=False)


def number(row: Row, measure: Measure) -> str | None:
    """Value and interval of one figure; None where the model has no such thing."""
    found = row.findings[measure.name]
    if found.value is None or found.low is None or found.high is None:
        return None
    parts = (found.value, found.low, found.high)
    if measure.name == "single-head":
        value, low, high = (round(part * row.layers) for part in parts)
        return f"{value} of {row.layers} [{low}, {high}]"
    scale, end = (100, " %") if measure.percent else (1, "")
    value, low, high = (scale * part for part in parts)
    return f"{value:.3g} [{low:.3g}, {high:.3g}]{end}"
