"""``headlens prune``: a physically smaller model, in a folder of its own."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headlens.cli.inputs import check_data, check_model, open_lens
from headlens.cli.options import (
    MAX_TOKENS,
    Ablation,
    AsJson,
    BatchSize,
    Data,
    Device,
    Dtype,
    Limit,
    MaxTokens,
    Metric,
    Model,
    NoResume,
    NormalizeChoice,
    Seed,
    Split,
    Unit,
)
from headlens.cli.output import emit, say, table
from headlens.cli.progress import computing
from headlens.cli.prune_choice import Choice, Options, check_choice, choose

if TYPE_CHECKING:
    from rich.console import Console

    from headlens.pruning.cut import Cut
    from headlens.pruning.saved import Saved

NAME = "prune"

Off = Annotated[
    str | None,
    typer.Option("--off", metavar="HEADS", help="Heads to take out: L3H7,L4H0-H5, a layer L4.", show_default=False),
]
MethodName = Annotated[
    str | None,
    typer.Option("--method", metavar="NAME", help="Or choose them by a method of `headlens methods`."),
]
Fraction = Annotated[
    float | None, typer.Option("--fraction", metavar="F", help="With --method: share of the heads that go, 0 to 1.")
]
Floor = Annotated[
    int, typer.Option("--floor", min=0, metavar="K", help="With --method: heads that stay in every layer.")
]
Folder = Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder to write.", show_default=False)]


def run(
    model: Model,
    out: Folder,
    off: Off = None,
    method: MethodName = None,
    fraction: Fraction = None,
    floor: Floor = 0,
    masked: Annotated[
        bool, typer.Option("--masked", help="Keep the shape: set the heads' output matrices to zero. Runs anywhere.")
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a folder that is there.")] = False,
    unit: Unit = "head",
    data: Data = None,
    split: Split = None,
    metric: Metric = None,
    ablation: Ablation = "zero",
    signed: Annotated[bool, typer.Option("--signed", help="gradient: keep the sign.")] = False,
    normalize: Annotated[
        NormalizeChoice, typer.Option("--normalize", help="layer: divide each layer by its l2 norm.")
    ] = "none",
    limit: Limit = None,
    max_tokens: MaxTokens = MAX_TOKENS,
    batch_size: BatchSize = None,
    seed: Seed = 0,
    device: Device = "auto",
    dtype: Dtype = None,
    no_resume: NoResume = False,
    as_json: AsJson = False,
) -> None:
    """Take heads out of a model and write the smaller model, a MODEL for every other command.

    Name the heads with --off, or give --method and --fraction: then the least important ones on the score half go.
    """
    asked = Options(
        method, fraction, floor, off, unit, data, split, metric, ablation, signed, normalize, limit, max_tokens,
        batch_size, seed, not no_resume,
    )  # fmt: skip
    check_choice(asked)
    check_model(model)
    with computing() as reporter:
        from headlens.pruning.cut import cut, mask
        from headlens.pruning.publish import check_target
        from headlens.pruning.saved import bytes_before, save_cut, source_of

        target = check_target(out, overwrite=overwrite)
        check_data(data)
        reporter.phase(f"opening {model}")
        lens = open_lens(model, device, dtype)
        choice = choose(lens, asked, reporter)
        reporter.phase("cutting")
        result = (mask if masked else cut)(lens, choice.off)
        heads = len(lens.topology.heads())
        facts = {"source": source_of(lens), "size_before": bytes_before(lens)}
        note = lens.adapter.note
        del lens  # the smaller model alone is held while it is written
        reporter.phase(f"writing {target}")
        saved = save_cut(result, target, choice=choice.facts, command=_command(model, out, result), **facts)
    remarks = _remarks(result, note)
    for remark in remarks:
        say(f"note: {remark}")
    report = _report(result, saved, facts["size_before"], heads, choice, remarks)
    emit(report, as_json, lambda console: _show(console, report, saved))


def _command(model: str, target: Path, result: Cut) -> str:
    """A command that makes the same folder again: with the heads named, however they were chosen."""
    from headlens.pruning.names import spoken

    parts = ["headlens", "prune", spoken(model), "--off", result.removed, "--out", spoken(target)]
    return shlex.join([*parts, "--masked"] if result.masked else parts)


def _remarks(result: Cut, note: str) -> list[str]:
    """What the sizes do not say."""
    found = []
    if not result.off:
        found.append("no head was taken out: the model is the same")
    if result.part_groups:
        groups = result.part_groups
        some = ", ".join(groups[:3]) + (", ..." if len(groups) > 3 else "")
        found.append(
            f"{len(groups)} KV groups ({some}) lose only some of their query heads, so their keys and values stay and "
            "nothing is saved there; --unit kv takes out whole groups"
        )
    if result.masked:
        found.append("masked: the shape is the old one, so it is neither smaller nor faster")
    elif note and result.off:
        found.append(note)
    return found


def _report(
    result: Cut, saved: Saved, size_before: int, heads: int, choice: Choice, remarks: list[str]
) -> dict[str, Any]:
    return {
        "out": saved.folder,
        "parameters_before": result.parameters_before,
        "parameters_after": result.parameters_after,
        "bytes_before": size_before,
        "bytes_after": saved.bytes,
        **result.proof.describe(),
        "heads_before": heads,
        "heads_after": heads - (0 if result.masked else len(result.off)),
        "off": result.removed,
        "masked": result.masked,
        "kv_groups_kept_for_a_part": list(result.part_groups),
        "loads_with": saved.loads_with or "headlens.load",
        "method": choice.facts.get("method"),
        "fraction": choice.facts.get("fraction"),
        "reliability": choice.facts.get("reliability"),
        "notes": remarks,
    }


def _show(console: Console, report: Mapping[str, Any], saved: Saved) -> None:
    from headlens.pruning.card import proof_sentence

    rows = [
        (what, report[f"{name}_before"], report[f"{name}_after"])
        for what, name in (("heads", "heads"), ("parameters", "parameters"), ("bytes of weights", "bytes"))
    ]
    shown = [(what, before, after, f"{100 * (after - before) / before:+.1f} %") for what, before, after in rows]
    numbers = ("before", "after", "change")
    table(console, ("", *numbers), shown, numbers=numbers)
    verb = "Zero in" if report["masked"] else "Taken out"
    console.print(f"{verb}: {report['off']}.", markup=False)
    console.print(proof_sentence(report), markup=False)
    opens = f"{saved.loads_with}.from_pretrained" if saved.loads_with else "headlens.load"
    console.print(f"Written to {saved.folder}; {opens} opens it.", markup=False)
