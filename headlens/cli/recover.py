"""``headlens recover``: brief fine-tuning of a cut model, measured before and after."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headlens.cli.inputs import check_data, check_model
from headlens.cli.options import (
    MAX_TOKENS,
    AsJson,
    BatchSize,
    Device,
    Dtype,
    Limit,
    MaxTokens,
    Model,
    NoResume,
    Seed,
    SplitChoice,
)
from headlens.cli.output import emit, say, table
from headlens.cli.progress import computing
from headlens.cli.recover_work import RecoverWork
from headlens.errors import HeadlensError

if TYPE_CHECKING:
    from rich.console import Console

    from headlens.pruning.recovery import Recovered
    from headlens.pruning.recovery_table import RecoveryTable
    from headlens.pruning.saved import Saved

NAME = "recover"

Folder = Annotated[Path, typer.Option("--out", metavar="DIR2", help="Folder to write.", show_default=False)]
Steps = Annotated[int, typer.Option("--steps", min=1, metavar="N", help="Most steps of training.")]
Data = Annotated[
    str | None,
    typer.Option(
        "--data",
        metavar="FILE|SETS",
        help="A data file, a set of `headlens data`, or several sets with commas. Default: the set it is measured on.",
    ),
]
Split = Annotated[
    SplitChoice | None,
    typer.Option("--split", help="The part of --data that is trained on: score, or all (only with --held-out)."),
]
HeldOut = Annotated[
    str | None,
    typer.Option(
        "--held-out",
        metavar="FILE|SET",
        help="What is reported. Default: the held-out half of --data (halves by seed).",
    ),
]
Teacher = Annotated[
    str | None,
    typer.Option("--teacher", metavar="MODEL", help="The full model, where the folder does not say or it has moved."),
]
Distill = Annotated[
    bool,
    typer.Option(
        "--distill", help="Learn from the full model's outputs instead of the text. Always so without a task head."
    ),
]
Rate = Annotated[
    float | None, typer.Option("--lr", metavar="X", help="Highest learning rate. Default: 0.02 / width, at most 0.001.")
]
Control = Annotated[
    int,
    typer.Option("--control", min=0, metavar="N", help="Also cut as many heads at random, N times, and recover those."),
]


def run(
    model: Model,
    out: Folder,
    data: Data = None,
    held_out: HeldOut = None,
    split: Split = None,
    steps: Steps = 200,
    distill: Distill = False,
    teacher: Teacher = None,
    lr: Rate = None,
    per_step: Annotated[int, typer.Option("--per-step", min=1, metavar="N", help="Examples of one step.")] = 8,
    every: Annotated[
        int | None,
        typer.Option("--every", min=1, metavar="N", help="Steps between evaluations. Default: about a tenth."),
    ] = None,
    patience: Annotated[
        int,
        typer.Option(
            "--patience", min=0, metavar="N", help="Evaluations without a new best before it stops; 0: never."
        ),
    ] = 4,
    warmup: Annotated[
        float, typer.Option("--warmup", metavar="F", help="Share of the steps with a rising rate.")
    ] = 0.1,
    weight_decay: Annotated[float, typer.Option("--weight-decay", metavar="X", help="Of matrices.")] = 0.01,
    clip: Annotated[float, typer.Option("--clip", metavar="X", help="Longest gradient.")] = 1.0,
    temperature: Annotated[float, typer.Option("--temperature", metavar="T", help="Of --distill.")] = 1.0,
    freeze_embeddings: Annotated[
        bool, typer.Option("--freeze-embeddings", help="Leave the embeddings (and an output layer that shares them).")
    ] = False,
    control: Control = 0,
    train_full: Annotated[
        bool, typer.Option("--train-full", help="Also train the full model the same way: what is the training's doing?")
    ] = False,
    compare: Annotated[
        bool, typer.Option("--compare/--no-compare", help="Measure the full model too, where it is at hand.")
    ] = True,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a folder that is there.")] = False,
    limit: Limit = None,
    max_tokens: MaxTokens = MAX_TOKENS,
    batch_size: BatchSize = None,
    seed: Seed = 0,
    device: Device = "auto",
    dtype: Dtype = None,
    no_resume: NoResume = False,
    as_json: AsJson = False,
) -> None:
    """Train a cut model for a short while (in float32) and measure it before and after.

    It is trained on the score half of the data, the best step is chosen on a part of that, and the held-out half is
    reported. DIR2 always holds the best so far, also when this is cancelled or killed; the same command then goes on.
    """
    if dtype not in (None, "float32"):
        raise HeadlensError(f"--dtype {dtype}: training takes float32 here; leave --dtype out")
    check_model(model)
    with computing() as reporter:
        from headlens.pruning.publish import check_target
        from headlens.pruning.recovery_spec import RecoverySpec

        spec = RecoverySpec(
            steps=steps,
            objective="distill" if distill else "task",
            learning_rate=lr,
            per_step=per_step,
            rows=batch_size,
            warmup=warmup,
            weight_decay=weight_decay,
            clip=clip,
            every=every,
            patience=patience,
            temperature=temperature,
            freeze_embeddings=freeze_embeddings,
            seed=seed,
        )
        target = check_target(out, overwrite=overwrite)
        if target == _absolute(model):
            raise HeadlensError(f"--out {out} is the folder of the model itself; choose another, so that both stay")
        for name in (data, held_out):
            check_data(name)
        work = RecoverWork(model, target, spec, device, max_tokens, batch_size, resume=not no_resume, reporter=reporter)
        controls = control > 0 or train_full
        work.open(teacher, needed=distill or controls, wanted=compare)
        examples = work.examples(data, held_out, split, limit)
        work.command = _command(model, out, locals())
        found = work.recover(examples, leave_state=controls)
        saved = work.save(found, None)
        compared = work.table(found, examples, control, full_too=train_full)
        if controls:
            saved = work.save(found, compared)
        found.forget()
    for note in (*work.notes, *compared.notes):
        say(f"note: {note}")
    report = _report(found, compared, saved, work.notes)
    emit(report, as_json, lambda console: _show(console, report))


def _absolute(model: str) -> Path | None:
    try:
        return Path(model).expanduser().absolute()
    except (OSError, RuntimeError, ValueError):
        return None


_PASSED = {
    "data": None,
    "held_out": None,
    "split": None,
    "steps": 200,
    "distill": False,
    "teacher": None,
    "lr": None,
    "per_step": 8,
    "every": None,
    "patience": 4,
    "warmup": 0.1,
    "weight_decay": 0.01,
    "clip": 1.0,
    "temperature": 1.0,
    "freeze_embeddings": False,
    "control": 0,
    "train_full": False,
    "limit": None,
    "max_tokens": MAX_TOKENS,
    "seed": 0,
}
"""Options that change a number, with what they are when nothing is said."""


def _command(model: str, target: Path, options: Mapping[str, Any]) -> str:
    """A command that does the same again."""
    from headlens.pruning.names import spoken

    parts = ["headlens", "recover", spoken(model)]
    for name, usual in _PASSED.items():
        value = options[name]
        if value == usual:
            continue
        option = f"--{name.replace('_', '-')}"
        parts += [option] if value is True else [option, spoken(str(value))]
    return shlex.join([*parts, "--out", spoken(target)])


def _report(found: Recovered, compared: RecoveryTable, saved: Saved, notes: list[str]) -> dict[str, Any]:
    return {
        "out": saved.folder,
        **found.describe(),
        "table": compared.describe(),
        "sentences": [found.sentence(), *compared.sentences()],
        "bytes_after": saved.bytes,
        "loads_with": saved.loads_with or "headlens.load",
        "notes": [*notes, *compared.notes],
    }


def _show(console: Console, report: Mapping[str, Any]) -> None:
    names = [name for name in ("loss", "perplexity", "accuracy", "drift") if name in report["table"][0]]
    columns = ["", "heads", "step", *(column for name in names for column in (name, f"± {name}"))]
    rows = []
    for row in report["table"]:
        title = row["name"] if row["seed"] is None else f"{row['name']} {row['seed'] + 1}"
        rows.append(
            [title, row["heads"], row["best_step"], *(row[key] for name in names for key in (name, f"{name}_sem"))]
        )
    table(console, columns, rows, numbers=columns[1:])
    for sentence in report["sentences"]:
        console.print(sentence, markup=False)
    console.print(
        f"± is the standard error over {report['data']['report_examples']} examples. {report['steps_done']} steps in "
        f"{report['seconds']:.3g} s; written to {report['out']}.",
        markup=False,
    )
