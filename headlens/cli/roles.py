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

    from headlens.cli.progress import Reporter
    from headlens.data.encode import EncodedData
    from headlens.lens import Lens
    from headlens.roles import RoleScores
    from headlens.scores import HeadScores

NAME = "roles"
BATCH_SIZE = 8


def run(
    model: Model,
    out: Annotated[Path, typer.Option("--out", metavar="FILE.csv", help="Where to write the scores.")],
    method: Annotated[
        str | None,
        typer.Option(
            "--method",
            metavar="NAME",
            help="Also how much the heads of each role matter by this score, and when they go in its order.",
        ),
    ] = None,
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
        from headlens.importance import method_for
        from headlens.roles import DETECTORS, roles
        from headlens.scores import write_text

        if method is not None:
            method_for(method)  # is there such a method?
        reporter.phase(f"opening {model}")
        lens = open_lens(model, device, dtype, device_map, max_memory)
        loaded = load(lens, data, split, limit, seed, default_split="score")
        examples = encode(lens, loaded, max_tokens=max_tokens, seed=seed)
        reporter.phase(f"roles of {model}")
        size = batch_size or BATCH_SIZE
        found = roles(lens, examples, detectors=DETECTORS, seed=seed, batch_size=size, on_progress=reporter)
        reporter.phase(f"writing {target}")
        write_text(target, found.to_frame().to_csv(index=False))
        scores = None
        if method is not None:
            reporter.phase(f"{method} of {model}")
            scores = _scores(lens, examples, method, batch_size, seed, reporter)
    summary = summarise(found)
    result = {
        "out": target,
        "data": loaded.name,
        "examples": len(examples),
        "seed": seed,
        "heads": len(lens.topology.heads()),
        "roles": summary,
        "fates": None if scores is None else _fates(found, scores),
    }
    emit(result, as_json, lambda console: _show(console, result, target))


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


def _scores(
    lens: Lens, examples: EncodedData, method: str, batch_size: int | None, seed: int, reporter: Reporter
) -> HeadScores:
    """Scores of all heads on the same examples; finished layers of a sweep are kept."""
    from headlens.importance import METHODS, Request
    from headlens.importance.score import score
    from headlens.metrics import metric_for
    from headlens.store import Store

    chosen = METHODS[method]
    data = examples if chosen.needs else None
    options = {"seed": seed, "batch_size": batch_size, "store": Store(), "on_progress": reporter}
    return score(lens, chosen, Request(metric_for(None, lens.task), data, **options))


def _fates(found: RoleScores, scores: HeadScores) -> dict[str, Any]:
    """How important the heads of each role are and when they go, the longest-lived role first."""
    from headlens.roles.fate import by_score, fates
    from headlens.roles.standing import role_scores, summary

    if scores.no_signal:
        return {
            "method": scores.method,
            "sentence": f"No order in which heads would go: {scores.no_signal}.",
            "roles": [],
        }
    standing = fates(found, by_score(scores))
    rows = []
    for fate in standing.fates:
        last = fate.departures[-1]
        rows.append(
            {
                "role": fate.role,
                "heads": [scores.topology.label(head.site, head.layer, head.head) for head in fate.heads],
                "scores": role_scores(fate, scores),
                "rank": fate.rank,
                "p_value": fate.p_value,
                "last_goes_at": last.fraction,
                "by_chance_at": last.expected,
                "by_chance_low": last.low,
                "by_chance_high": last.high,
                "sentence": fate.sentence(standing.total),
            }
        )
    said = f"{summary(standing, scores)} {scores.stability() if scores.n else ''}".strip()
    return {"method": scores.method, "reliability": scores.reliability, "sentence": said, "roles": rows}


def _show(console: Console, result: dict[str, Any], target: Path) -> None:
    columns = ("role", "threshold", "heads that pass", "strongest", "its score")
    rows = [(r["title"], r["threshold"], r["passing"], r["best_head"], r["best_score"]) for r in result["roles"]]
    table(console, columns, rows, numbers=("threshold", "heads that pass", "its score"))
    if result["fates"] is not None:
        _show_fates(console, result["fates"])
    console.print(f"Written to {target}.", markup=False)


def _show_fates(console: Console, found: dict[str, Any]) -> None:
    import numpy as np

    columns = ("role", "heads", "median score", "last one goes at", "by chance at", "later than others", "p")
    rows = [
        (
            one["role"],
            len(one["heads"]),
            float(np.median(one["scores"])),
            f"{100 * one['last_goes_at']:.0f} %",
            f"{100 * one['by_chance_at']:.0f} % [{100 * one['by_chance_low']:.0f}, {100 * one['by_chance_high']:.0f}]",
            one["rank"],
            one["p_value"],
        )
        for one in found["roles"]
    ]
    if rows:
        table(console, columns, rows, numbers=columns[1:])
    console.print(found["sentence"], markup=False)
    console.print(
        f"Heads go in the order of {found['method']}, least important first, on these examples. Later than others: "
        "chance that a head of the role goes after one without it (0.5: no difference). p: Mann-Whitney test, "
        "Holm-corrected over the roles.",
        markup=False,
    )
