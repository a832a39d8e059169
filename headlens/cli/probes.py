"""``headlens probes``: what a model can do, what it loses with heads off, and which heads carry what."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headlens.cli.evaluate import parse_off
from headlens.cli.inputs import check_model, check_out, open_lens
from headlens.cli.options import Ablation, AsJson, BatchSize, Device, Dtype, Model, NoResume, Off, Seed, Unit
from headlens.cli.output import emit, table
from headlens.cli.progress import computing
from headlens.errors import Cancelled, HeadlensError

if TYPE_CHECKING:
    from rich.console import Console

    from headlens.cli.progress import Reporter
    from headlens.evaluate import Evaluation
    from headlens.heads import HeadSet
    from headlens.lens import Lens
    from headlens.probes import ProbeResult, Skill
    from headlens.probes.carriers import Carriers

NAME = "probes"
_ITS_BATCH = 16


def run(
    model: Model,
    off: Off = "none",
    skills: Annotated[
        str | None,
        typer.Option("--skills", metavar="A,B", help="Which skills to ask about. Default: those that suit the model."),
    ] = None,
    carriers: Annotated[
        bool, typer.Option("--carriers", help="Switch off every head in turn: which skills hang on single heads?")
    ] = False,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE.csv", help="With --carriers: every head's figures.")
    ] = None,
    pairs: Annotated[
        int | None, typer.Option("--limit", min=1, metavar="N", help="Only the first N pairs of each skill.")
    ] = None,
    ablation: Ablation = "zero",
    unit: Unit = "head",
    batch_size: BatchSize = None,
    seed: Seed = 0,
    device: Device = "auto",
    dtype: Dtype = None,
    no_resume: NoResume = False,
    as_json: AsJson = False,
) -> None:
    """Ask a model about its skills in minimal pairs, with all heads on and with some off.

    A pair is right when the right answer gets a larger logit than the foil; guessing gives one half. Intervals are
    exact (Clopper-Pearson), differences are paired.
    """
    if out is not None and not carriers:
        raise HeadlensError("--out goes with --carriers: leave it out, or add --carriers")
    if carriers and off != "none":
        raise HeadlensError("--carriers switches off every head in turn; leave out --off")
    check_model(model)
    target = None if out is None else check_out(out, ".csv")
    with computing() as reporter:
        from headlens.probes import find_skills

        names = None if skills is None else [name.strip() for name in skills.split(",") if name.strip()]
        reporter.phase(f"opening {model}")
        lens = open_lens(model, device, dtype)
        chosen = find_skills(lens, names)
        heads = parse_off(lens, off, whole_groups=unit == "kv")
        options = {"ablation": ablation, "limit": pairs, "seed": seed}
        if carriers:
            options |= {"unit": unit, "resume": not no_resume}
            show = _carried(lens, chosen, options, target, as_json, reporter)
        else:
            options |= {"batch_size": batch_size or _ITS_BATCH}
            show = _asked(lens, heads, chosen, options, as_json, reporter)
    show()


def _asked(
    lens: Lens, heads: HeadSet, skills: tuple[Skill, ...], options: dict[str, Any], as_json: bool, reporter: Reporter
) -> Callable[[], None]:
    """Asks about the skills; what prints the answer comes back."""
    from headlens.probes import probe

    reporter.phase(f"skills of {lens.name}")
    result = probe(lens, heads, skills, **options, on_progress=reporter)
    evaluation = _running_text(lens, heads, options, reporter) if len(heads) else None
    sentences = result.sentences(evaluation)
    live = None if evaluation is None else evaluation.to_json()
    whole = {**result.to_json(), "live": live, "sentences": sentences}
    return lambda: emit(whole, as_json, lambda console: _show(console, result, sentences))


def _running_text(lens: Lens, heads: HeadSet, options: dict[str, Any], reporter: Reporter) -> Evaluation:
    """The same switch on running text (the live set)."""
    from headlens.data.select import live_set
    from headlens.evaluate import evaluate
    from headlens.metrics import metric_for

    reporter.phase("running text")
    chosen = {"metric": metric_for(None, lens.task), "ablation": options["ablation"], "seed": options["seed"]}
    return evaluate(lens, live_set(lens), heads, **chosen, on_progress=reporter)


def _carried(
    lens: Lens,
    skills: tuple[Skill, ...],
    options: dict[str, Any],
    target: Path | None,
    as_json: bool,
    reporter: Reporter,
) -> Callable[[], None]:
    """Each skill's sweep; what prints the answer comes back.

    Raises:
        Cancelled: on Ctrl-C; finished layers are stored.
        HeadlensError: no skill can be asked about.
    """
    from headlens.probes.carriers import carriers
    from headlens.scores import write_text
    from headlens.store import Store

    found: list[Carriers] = []
    skipped: dict[str, str] = {}
    for skill in skills:
        reporter.phase(f"heads of {lens.name}: {skill.name}")
        try:
            found.append(carriers(lens, skill, **options, store=Store(), on_progress=reporter))
        except HeadlensError as error:
            skipped[skill.name] = str(error)
        except (KeyboardInterrupt, Cancelled) as stop:
            raise Cancelled("finished layers are stored; the same command without --no-resume resumes there") from stop
    if not found:
        raise HeadlensError(next(iter(skipped.values())))
    if target is not None:
        import pandas as pd

        frames = [each.to_frame().assign(skill=each.skill.name) for each in found]
        write_text(target, pd.concat(frames).to_csv(index=False))
    facts = {"model": lens.name, "out": target, "ablation": found[0].ablation, "unit": found[0].unit}
    whole = {**facts, "skills": [each.to_json() for each in found], "skipped": skipped}
    return lambda: emit(whole, as_json, lambda console: _show_carriers(console, found, skipped, target))


def _show(console: Console, result: ProbeResult, sentences: list[str]) -> None:
    off = result.off != "none"
    numbers = ("pairs", "all on", "switched", "change", "p", "logit difference", "its change")
    columns = ("skill", *numbers) if off else ("skill", "pairs", "right", "logit difference")
    rows: list[tuple[Any, ...]] = []
    for each in result.skills:
        right, difference = _range(each.accuracy_before), _mean(each.difference_before)
        if not off:
            rows.append((each.skill.title, each.pairs, right, difference))
            continue
        change = f"{100 * each.accuracy_change.value:+.0f} points"
        p_value = result.p_values[each.skill.name]
        after, moved = _range(each.accuracy), _mean(each.difference_change, signed=True)
        rows.append((each.skill.title, each.pairs, right, after, change, p_value, difference, moved))
    table(console, columns, rows, numbers=(*numbers, "right"))
    for sentence in (*sentences, *result.skipped.values()):
        console.print(sentence, markup=False)
    console.print(
        "Right: larger logit for the right answer, with the exact 95 % interval. Logit difference: right - foil, nats, "
        f"mean and standard error over pairs.{' p: exact McNemar test, Holm-corrected.' if off else ''}",
        markup=False,
    )


def _show_carriers(console: Console, found: list[Carriers], skipped: dict[str, str], target: Path | None) -> None:
    columns = ("skill", "pairs", "all on", "verdict", "carrying", "supporting", "reliability")
    rows = []
    for each in found:
        counts = len(each.carrying), len(each.supporting), each.scores.reliability
        rows.append((each.skill.title, each.pairs, _range(each.accuracy), each.verdict, *counts))
    table(console, columns, rows, numbers=columns[1:3] + columns[4:])
    for sentence in (*(each.sentence() for each in found), *skipped.values()):
        console.print(sentence, markup=False)
    console.print(
        "Carrying: fewer right answers without it (exact McNemar test); supporting: a smaller logit difference without "
        "it (paired t test); both one-sided at 5 %, Holm-corrected over all heads.",
        markup=False,
    )
    if target is not None:
        console.print(f"Written to {target}.", markup=False)


def _range(share: Any) -> str:
    return f"{100 * share.value:.0f} % [{100 * share.low:.0f}, {100 * share.high:.0f}]"


def _mean(mean: Any, *, signed: bool = False) -> str:
    return f"{mean.value:{'+' if signed else ''}.2f} ± {mean.sem:.2f}"
