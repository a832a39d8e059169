"""``headlens roles``: what each head does, by where it looks."""

from __future__ import annotations

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
    DeviceMap,
    Dtype,
    Limit,
    MaxMemory,
    MaxTokens,
    Model,
    Seed,
    Split,
)
from headlens.cli.output import emit, table
from headlens.cli.progress import computing

if TYPE_CHECKING:
    from rich.console import Console

    from headlens.roles import RoleScores

NAME = "roles"
BATCH_SIZE = 8


def run(
    model: Model,
    out: Annotated[Path, typer.Option("--out", metavar="FILE.csv", help="Where to write the scores.")],
    data: Data = None,
    split: Split = None,
    limit: Limit = None,
    max_tokens: MaxTokens = MAX_TOKENS,
    batch_size: BatchSize = None,
    seed: Seed = 0,
    device: Device = "auto",
    device_map: DeviceMap = None,
    max_memory: MaxMemory = None,
    dtype: Dtype = None,
    as_json: AsJson = False,
) -> None:
    """Score every head by every role: previous token, induction, punctuation, ... (default data: the score half).

    The file has columns site, layer, head, role, score, a row for each head and role. A score is empty where nothing
    could be measured.
    """
    check_model(model)
    target = check_out(out, ".csv")
    check_data(data)
    with computing() as reporter:
        from headlens.data.encode import encode
        from headlens.roles import DETECTORS, roles
        from headlens.scores import write_text

        reporter.phase(f"opening {model}")
        lens = open_lens(model, device, dtype, device_map, max_memory)
        loaded = load(lens, data, split, limit, seed, default_split="score")
        examples = encode(lens, loaded, max_tokens=max_tokens, seed=seed)
        reporter.phase(f"roles of {model}")
        size = batch_size or BATCH_SIZE
        found = roles(lens, examples, detectors=DETECTORS, seed=seed, batch_size=size, on_progress=reporter)
        reporter.phase(f"writing {target}")
        write_text(target, found.to_frame().to_csv(index=False))
    summary = summarise(found)
    result = {
        "out": target,
        "data": loaded.name,
        "examples": len(examples),
        "seed": seed,
        "heads": len(lens.topology.heads()),
        "roles": summary,
    }
    emit(result, as_json, lambda console: _show(console, summary, target))


def summarise(found: RoleScores) -> list[dict[str, Any]]:
    """For each role that makes sense in the model: how it is defined, how many heads have it, which one most."""
    from headlens.roles.registry import DETECTORS

    topology = found.topology
    rows = []
    for name in found.scores:
        scores = {head: score for head in topology.heads() if (score := found.of(head).get(name)) is not None}
        best = max(scores, key=scores.__getitem__, default=None)
        label = None if best is None else topology.label(best.site, best.layer, best.head)
        detector = DETECTORS[name]
        rows.append(
            {
                "role": name,
                "title": detector.title,
                "formula": detector.formula,
                "unit": detector.unit,
                "threshold": detector.threshold,
                "passing": None if detector.threshold is None else len(found.passing(name)),
                "best_head": label,
                "best_score": None if best is None else scores[best],
                "best_detail": None if best is None else found.detail(best, name) or None,
                "source": detector.source,
            }
        )
    return rows


def _show(console: Console, summary: list[dict[str, Any]], target: Path) -> None:
    columns = ("role", "threshold", "heads that pass", "strongest", "its score")
    rows = [(r["title"], r["threshold"], r["passing"], r["best_head"], r["best_score"]) for r in summary]
    table(console, columns, rows, numbers=("threshold", "heads that pass", "its score"))
    console.print(f"Written to {target}.", markup=False)
