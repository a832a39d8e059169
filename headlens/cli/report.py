"""``headlens report``: one HTML file for those who were not there."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headlens.cli.inputs import check_data, check_model, check_out, load, open_lens
from headlens.cli.options import (
    MAX_TOKENS,
    AsJson,
    BatchSize,
    Data,
    Device,
    Dtype,
    Limit,
    MaxTokens,
    Model,
    NoResume,
    Seed,
    Split,
)
from headlens.cli.output import emit, say
from headlens.cli.progress import Reporter, computing
from headlens.errors import HeadlensError

if TYPE_CHECKING:
    from rich.console import Console

    from headlens.report.models import Subjects
    from headlens.scores import HeadScores

NAME = "report"

Cut = Annotated[str | None, typer.Argument(metavar="[CUT]", help="Folder of its cut.", show_default=False)]
Recovered = Annotated[
    str | None, typer.Argument(metavar="[RECOVERED]", help="Folder of the recovered cut.", show_default=False)
]
Page = Annotated[Path, typer.Option("--out", metavar="R.html", help="Where to write.", show_default=False)]
Prompts = Annotated[
    list[str] | None,
    typer.Option("--prompt", metavar="TEXT", help="Shown with its continuations; may be given several times."),
]
MethodName = Annotated[
    str | None,
    typer.Option("--method", metavar="NAME", help="Scores for the map. Default: the method that chose the heads."),
]


def run(
    model: Model,
    out: Page,
    cut: Cut = None,
    recovered: Recovered = None,
    title: Annotated[str | None, typer.Option("--title", metavar="TEXT", help="At the top of the page.")] = None,
    data: Data = None,
    split: Split = None,
    prompt: Prompts = None,
    samples: Annotated[int, typer.Option("--samples", min=0, metavar="N", help="Sample outputs to show.")] = 3,
    new_tokens: Annotated[int, typer.Option("--new-tokens", min=1, metavar="N", help="Tokens of a sample.")] = 32,
    temperature: Annotated[
        float, typer.Option("--temperature", min=0.0, metavar="T", help="Of the samples; 0: the most probable token.")
    ] = 0.0,
    method: MethodName = None,
    scores: Annotated[bool, typer.Option("--scores/--no-scores", help="Score the heads for the map.")] = True,
    speed: Annotated[bool, typer.Option("--speed/--no-speed", help="Measure speed and size.")] = True,
    batch_sizes: Annotated[str, typer.Option("--batch-sizes", metavar="LIST", help="For the speed.")] = "1,4,16",
    repeats: Annotated[int, typer.Option("--repeats", min=3, metavar="N", help="Rounds for the speed.")] = 5,
    limit: Limit = None,
    max_tokens: MaxTokens = MAX_TOKENS,
    batch_size: BatchSize = None,
    seed: Seed = 0,
    device: Device = "auto",
    dtype: Dtype = None,
    no_resume: NoResume = False,
    as_json: AsJson = False,
) -> None:
    """Write a report: what was cut, quality before and after, samples, speed, which heads and why, limits.

    MODEL is the full model; or the folder of a cut or recovered one, which says what it was made from. Quality and
    samples are measured on the held-out half of the data.
    """
    target = check_out(out, ".html")
    check_data(data)
    for name in (model, cut, recovered):
        if name is not None:
            check_model(name)
    with computing() as reporter:
        from headlens.importance import method_for
        from headlens.pruning.benchmark import BenchmarkSpec
        from headlens.report.make import ReportSpec, make
        from headlens.report.models import names_for, open_subjects
        from headlens.report.render import render
        from headlens.scores import write_text

        chosen = None if method is None else method_for(method)
        spec = ReportSpec(
            title=title,
            max_tokens=max_tokens,
            batch_size=batch_size or 8,
            seed=seed,
            prompts=tuple(prompt or ()),
            samples=samples,
            new_tokens=new_tokens,
            temperature=temperature,
            benchmark=BenchmarkSpec(_numbers(batch_sizes), repeats, seed=seed) if speed else None,
            command=_command(locals()),
        )
        names = names_for(model, cut, recovered)
        subjects = open_subjects(names, lambda name: open_lens(name, device, dtype), reporter.phase)
        examples = load(subjects.full.lens, data, split, limit, seed, default_split="held-out")
        found = None
        if scores:
            chosen, found = _scores(subjects, chosen, data, limit, max_tokens, seed, not no_resume, reporter)
        made = make(
            subjects,
            examples,
            spec,
            scores=found,
            method=chosen if found is not None else None,
            on_progress=reporter,
            on_phase=reporter.phase,
        )
        write_text(target, render(made))
    result = {"out": target, **made.describe()}
    emit(result, as_json, lambda console: _show(console, result))


def _numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(dict.fromkeys(int(part) for part in text.split(",")))
    except ValueError as error:
        raise HeadlensError(f"--batch-sizes {text!r}: give whole numbers, for example 1,4,16") from error


def _scores(
    subjects: Subjects,
    method: Any,
    data: str | None,
    limit: int | None,
    max_tokens: int,
    seed: int,
    resume: bool,
    reporter: Reporter,
) -> tuple[Any, HeadScores | None]:
    """Scores of the full model's heads: by the method that is asked for, else by the one that chose the heads."""
    from headlens.cli.importance import compute
    from headlens.data.encode import encode
    from headlens.importance import METHODS, Request
    from headlens.metrics import metric_for
    from headlens.report.choice import choice_of
    from headlens.store import Store

    lens, told = subjects.full.lens, choice_of(subjects)
    if method is None and not told.get("method"):
        return None, None
    if method is None and told["method"] not in METHODS:
        say(f"note: the map has no scores: {told['method']} gives none; --method NAME takes those of another method")
        return None, None
    same = method is None or told.get("method") == method.name
    method = method or METHODS[told["method"]]
    settings = told if same else {}
    encoded = None
    if method.needs:
        part = settings.get("split")
        part = part if part in ("score", "held-out", "all") else None
        examples = load(lens, data or _set_of(settings), part, limit, seed, default_split="score")
        encoded = encode(lens, examples, max_tokens=max_tokens, seed=seed)
    reporter.phase(f"{method.name} of {subjects.full.name}")
    request = Request(
        metric=metric_for(settings.get("metric"), lens.task),
        data=encoded,
        ablation=settings.get("ablation") or "zero",
        unit=settings.get("unit") or "head",
        signed=bool(settings.get("signed")),
        seed=int(settings.get("seed") or seed),
        store=Store(),
        resume=resume,
        on_progress=reporter,
    )
    try:
        return method, compute(lens, method, request, settings.get("normalize") or "none")
    except HeadlensError as error:
        say(f"note: the map has no scores: {error}")
        return None, None


def _set_of(settings: Mapping[str, Any]) -> str | None:
    """The built-in set that the heads were chosen on; None for a file, whose place is not known."""
    from headlens.data.builtin import index

    name = settings.get("data")
    return name if any(entry.name == name for entry in index()) else None


_PASSED: dict[str, Any] = {
    "title": None,
    "data": None,
    "split": None,
    "samples": 3,
    "new_tokens": 32,
    "temperature": 0.0,
    "method": None,
    "batch_sizes": "1,4,16",
    "repeats": 5,
    "limit": None,
    "max_tokens": MAX_TOKENS,
    "seed": 0,
    "dtype": None,
}


def _command(options: Mapping[str, Any]) -> str:
    """The command that makes the report again."""
    from headlens.pruning.names import spoken

    parts = [
        "headlens",
        "report",
        *(spoken(options[n]) for n in ("model", "cut", "recovered") if options[n] is not None),
    ]
    for name, usual in _PASSED.items():
        if options[name] != usual:
            parts += [f"--{name.replace('_', '-')}", spoken(str(options[name]))]
    for text in options["prompt"] or ():
        parts += ["--prompt", text]
    parts += [option for name, option in (("scores", "--no-scores"), ("speed", "--no-speed")) if not options[name]]
    return shlex.join([*parts, "--out", spoken(options["out"])])


def _show(console: Console, result: Mapping[str, Any]) -> None:
    for sentence in result["sentences"]:
        console.print(sentence, markup=False)
    console.print(f"Written to {result['out']}.", markup=False)
