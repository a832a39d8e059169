"""``headlens lab``: can one learn with as few heads as one can keep?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from headlens.cli.engine import working_on
from headlens.cli.inputs import check_out
from headlens.cli.options import Address, AsJson, EngineName, NoResume, Seed
from headlens.cli.output import emit, say, table
from headlens.cli.progress import computing
from headlens.errors import HeadlensError

if TYPE_CHECKING:
    from rich.console import Console

    from headlens.lab.results import RunResult
    from headlens.lab.specs import RunSpec
    from headlens.lab.study import Study

NAME = "lab"
ShapeChoice = Literal["llama", "qwen3"]
HEADS, DISTANCES = "4,8,16", "1,4,8,13"


def run(
    heads: Annotated[str, typer.Option("--heads", metavar="N,...", help="Numbers of heads to train with.")] = HEADS,
    seeds: Annotated[int, typer.Option("--seeds", min=1, max=1000, metavar="N", help="Runs of each kind.")] = 4,
    distances: Annotated[
        str, typer.Option("--distances", metavar="N,...", help="How far back the symbols are that make the target.")
    ] = DISTANCES,
    steps: Annotated[int, typer.Option("--steps", metavar="N", help="Steps of training.")] = 600,
    symbols: Annotated[int, typer.Option("--symbols", metavar="N", help="Size of the alphabet; 2 are bits.")] = 2,
    length: Annotated[int, typer.Option("--length", metavar="N", help="Tokens of a sequence.")] = 32,
    shape: Annotated[ShapeChoice, typer.Option("--shape", help="How attention is built.")] = "llama",
    learning_rate: Annotated[float, typer.Option("--learning-rate", metavar="X", help="Peak of the cycle.")] = 3e-3,
    prune_to: Annotated[
        int | None,
        typer.Option("--prune-to", metavar="N", help="Heads that pruning keeps. Default: one for each distance."),
    ] = None,
    control: Annotated[
        list[str] | None,
        typer.Option("--control", metavar="NAME", help="A control for fairness, or all; may be given several times."),
    ] = None,
    extra_steps: Annotated[
        int, typer.Option("--extra-steps", metavar="N", help="Further steps, where a control compares them.")
    ] = 300,
    seed: Seed = 0,
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers", min=1, max=256, metavar="N", help="Processes, or workers of --engine ray. Default: one a core."
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Also if it takes longer than an hour.")] = False,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE.csv", help="Where to write the runs.")] = None,
    curves: Annotated[
        Path | None, typer.Option("--curves", metavar="FILE.csv", help="Where to write the learning curves.")
    ] = None,
    engine: EngineName = "local",
    address: Address = None,
    no_resume: NoResume = False,
    as_json: AsJson = False,
) -> None:
    """Train small models with few and many heads, and prune the many.

    The target at a position is made of the symbols at fixed distances back, so each distance that no head serves costs
    one symbol (one bit). Losses are in bits, on sequences that were not used otherwise.
    """
    paths = [None if path is None else check_out(path, ".csv") for path in (out, curves)]
    from headlens.lab.specs import Architecture, Task, Training, numbers
    from headlens.lab.study import Study, record

    task = Task(numbers(distances, "--distances"), symbols, length)
    study = Study(
        heads=tuple(sorted(numbers(heads, "--heads"))),
        small=len(task.distances) if prune_to is None else prune_to,
        seeds=tuple(range(seed, seed + seeds)),
        task=task,
        training=Training(steps, learning_rate=learning_rate, seed=seed),
        architecture=Architecture(1, shape),
        extra=extra_steps,
        controls=tuple(_controls(control or [])),
    )
    results = _run(study, (engine, address, workers), yes=yes, resume=not no_resume)
    if seeds == 1:
        say("warning: no interval from one seed; verdicts need more (--seeds)")
    ordered = [results[spec] for spec in study.specs()]
    _write(paths, ordered)
    found = record(study, results)
    emit(found, as_json, lambda console: _show(console, found))


def _controls(names: list[str]) -> list[Any]:
    from headlens.lab.questions import CONTROLS, controls

    return controls([other for name in names for other in (CONTROLS if name == "all" else (name,))])


def _run(
    study: Study, where: tuple[str, str | None, int | None], *, yes: bool, resume: bool
) -> dict[RunSpec, RunResult]:
    from headlens.lab.estimate import refuse_long, words
    from headlens.lab.pool import run_all
    from headlens.store import Store

    check = refuse_long(yes, "say --yes")
    told: list[float] = []

    def confirm(seconds: float) -> None:
        check(seconds)
        told.append(seconds)
        if len(told) == 2:  # the first one is a guess, the second one was measured
            say(f"{len(specs)} runs, about {words(seconds)}")

    specs = study.specs()
    name, address, workers = where
    with computing() as reporter, working_on(name, address, workers if name != "local" else None, reporter):
        reporter.phase(f"training {len(specs)} models")
        found = run_all(specs, Store(), workers=workers, resume=resume, on_progress=reporter, confirm=confirm)
    return dict(zip(specs, found, strict=True))


def _write(paths: list[Path | None], results: list[RunResult]) -> None:
    from headlens.lab.export import curves_csv, runs_csv

    for path, text in zip(paths, (runs_csv, curves_csv), strict=True):
        if path is None:
            continue
        temporary = path.with_name(f".{path.name}.part")
        try:
            temporary.write_text(text(results), encoding="utf-8")
            temporary.replace(path)
        except OSError as error:
            temporary.unlink(missing_ok=True)
            raise HeadlensError(f"cannot write {path}: {error.strerror or error}; choose another place") from error


def _show(console: Console, found: dict[str, Any]) -> None:
    rows = [
        (row["title"], f"{row['successes']} of {row['runs']}", _interval(row), row["mean_bits"], row["sem_bits"])
        for row in found["summary"]
    ]
    columns = ("what", "learnt", "95 % interval", "loss (bits)", "std. error")
    table(console, columns, rows, numbers=columns[1:])
    for verdict in found["verdicts"]:
        console.print(f"- {verdict['sentence']}", markup=False)
    for remark in found["remarks"]:
        console.print(f"- {remark}", markup=False)
    console.print(
        "\nLearnt: held-out loss below a tenth of a symbol. Intervals are exact binomial ones; "
        "the standard error is over seeds.",
        markup=False,
    )


def _interval(row: dict[str, Any]) -> str:
    low, high = row["low"], row["high"]
    return "-" if low != low else f"{100 * low:.0f} to {100 * high:.0f} %"  # NaN: one seed
