"""``headlens replicate``: does a ranking of heads hold on other texts, and for other skills?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headlens.cli.inputs import check_model, check_out, open_lens
from headlens.cli.options import Ablation, AsJson, Device, Dtype, Limit, Metric, Model, NoResume, Seed, Unit
from headlens.cli.output import emit, table
from headlens.cli.progress import computing

if TYPE_CHECKING:
    from rich.console import Console

    from headlens.replication import Replication
    from headlens.replication_curves import CurveReplication

NAME = "replicate"


def run(
    model: Model,
    method: Annotated[
        str, typer.Option("--method", metavar="NAME", help="How heads are scored; see `headlens methods`.")
    ] = "gradient",
    sets: Annotated[
        str | None, typer.Option("--sets", metavar="A,B", help="Sets of `headlens data`. Default: all of the task.")
    ] = None,
    skills: Annotated[
        bool, typer.Option("--skills", help="Compare skills instead of sets: every head off in turn on each.")
    ] = False,
    curves: Annotated[
        bool, typer.Option("--curves", help="Also pruning curves: heads chosen on one set, switched off on another.")
    ] = False,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE.csv", help="Where to write the pairs.")] = None,
    metric: Metric = None,
    ablation: Ablation = "zero",
    unit: Unit = "head",
    limit: Limit = None,
    seed: Seed = 0,
    device: Device = "auto",
    dtype: Dtype = None,
    no_resume: NoResume = False,
    as_json: AsJson = False,
) -> None:
    """Compare rankings of heads between the built-in sets (score halves), or between skills.

    Rank correlations come with a bootstrap interval over heads, and with the ceiling that noise alone sets. --limit
    takes the first so many examples of each set (with --skills: pairs of each skill). A model of the zoo, which knows
    one set, is compared between the two halves of it.
    """
    from headlens.errors import HeadlensError

    if skills and (curves or sets):
        raise HeadlensError("--skills compares skills; leave out --sets and --curves")
    check_model(model)
    target = None if out is None else check_out(out, ".csv")
    with computing() as reporter:
        from headlens.importance import method_for
        from headlens.metrics import metric_for
        from headlens.replication import replication
        from headlens.replication_run import How, SetRun, skill_scores
        from headlens.scores import write_text
        from headlens.store import Store

        chosen = method_for(method)
        reporter.phase(f"opening {model}")
        lens = open_lens(model, device, dtype)
        how = How(ablation, unit, seed, limit, None, Store(), not no_resume, reporter.phase, reporter)
        names = None if sets is None else [name.strip() for name in sets.split(",") if name.strip()]
        work = None if skills else SetRun(lens, chosen, metric_for(metric, lens.task), how, names)
        scores = skill_scores(lens, how) if work is None else work.scores(curves)
        found = replication(scores, seed=seed)
        moved = work.curves(scores) if work is not None and curves else None
        if target is not None:
            write_text(target, found.to_frame().to_csv(index=False))
    what = {"model": model, "compared": "skills" if skills else "sets", "method": "ablation" if skills else method}
    result = {**what, "out": target, **found.to_json(), "curves": None if moved is None else moved.to_json()}
    emit(result, as_json, lambda console: _show(console, found, moved))


def _show(console: Console, found: Replication, moved: CurveReplication | None) -> None:
    from headlens.replication import HOW_TO_READ

    columns = ("first", "second", "rho", "ceiling", "shared of top", "by chance")
    rows: list[tuple[Any, ...]] = []
    for pair in found.pairs:
        one = pair.agreement
        rows.append((one.first, one.second, str(pair.rho), pair.ceiling, f"{one.shared} of {one.top}", one.expected))
    table(console, columns, rows, numbers=columns[2:])
    console.print(found.sentence(), markup=False)
    for name, reason in found.no_signal.items():
        console.print(f"Left out: {name} ({reason}).", markup=False)
    console.print(HOW_TO_READ, markup=False)
    if moved is None:
        return
    columns = ("chosen on", "measured on", "off", "cost", "more than its own", "random")
    rows = []
    for each in moved.transfers:
        extra = "-" if each.chosen_on == each.measured_on else f"{each.extra:+.3f} ± {each.extra_sem:.3f}"
        cost, chance = f"{each.cost:.3f} ± {each.sem:.3f}", f"{each.random:.3f}"
        rows.append((each.chosen_on, each.measured_on, f"{100 * each.fraction:.0f} %", cost, extra, chance))
    table(console, columns, rows, numbers=columns[2:])
    console.print(moved.sentence(), markup=False)
