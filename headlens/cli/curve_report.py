"""What ``headlens curve`` gives: the CSV and the JSON beside it, one JSON object, or tables for people."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headlens.cli.output import emit, plain, table

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console

    from headlens.pruning.all_but_one import AllButOne
    from headlens.pruning.budget import Budget
    from headlens.pruning.learned_gates import LearnedGates
    from headlens.pruning.points import Curve

DEFAULT_BUDGETS = {
    "loss": ("loss+1%", "loss+5%", "loss+10%"),
    "accuracy": ("accuracy-0.01", "accuracy-0.05"),
    "drift": ("drift+0.01", "drift+0.05", "drift+0.1"),
    "bleu": ("bleu-0.5", "bleu-2"),
}
"""Told where no --budget is given, by the figure that the curve is about."""
SHOWN_FIGURES = ("loss", "accuracy", "kl", "drift", "bleu")


def give_curve(
    curve: Curve, budgets: Sequence[Budget], gates: Sequence[LearnedGates], target: Path | None, as_json: bool
) -> None:
    """Writes the files if they are wanted and prints the result."""
    result: dict[str, Any] = {"out": target, "json": None if target is None else target.with_suffix(".json")}
    result |= describe(curve, budgets, gates)
    if target is None:
        result["points"] = _records(curve.to_frame())
    else:
        write(target, curve.to_frame(), result)
    emit(result, as_json, lambda console: _show_curve(console, curve, result, target))


def describe(curve: Curve, budgets: Sequence[Budget], gates: Sequence[LearnedGates]) -> dict[str, Any]:
    """Everything but the points, JSON-ready."""
    from headlens.pruning import budget as budgeting
    from headlens.pruning.chance import RULE, chance, sentence

    found = chance(curve)
    wanted = budgets or [budgeting.parse_budget(text) for text in DEFAULT_BUDGETS[curve.figure]]
    return {
        "figure": curve.figure,
        "heads": curve.steps.heads,
        "baseline": curve.baseline.evaluation.to_json(),
        "chance": {
            "verdict": found.overall,
            "ranked_mean": found.ranked,
            "random_low": found.low,
            "random_high": found.high,
            "orders": found.orders,
            "better_at": found.fractions("better"),
            "not_told_apart_at": found.fractions("not told apart"),
            "worse_at": found.fractions("worse"),
            "ahead_of_all_at": found.ahead,
            "rule": RULE,
            "sentence": sentence(curve, found),
        },
        "budgets": [budgeting.describe(curve, budgeting.within(curve, one)) for one in wanted],
        "gates": [
            {
                "penalty": one.spec.penalty,
                "seed": one.seed,
                "steps": one.spec.steps,
                "heads_off": len(one.off),
                "undecided": one.undecided,
                "expected_open": float(one.expected_open[-1]),
                "off": curve.steps.topology.format(one.off),
                "seconds": round(one.seconds, 3),
            }
            for one in gates
        ],
        **curve.provenance,
    }


def give_layers(layers: AllButOne, target: Path | None, as_json: bool) -> None:
    """The same for the layers with one head left."""
    frame = layers.to_frame()
    result: dict[str, Any] = {
        "out": target,
        "json": None if target is None else target.with_suffix(".json"),
        "metric": layers.metric,
        "unit": layers.unit,
        "held_out": layers.held_out,
        "examples": layers.examples,
        "sentence": layers.sentence(),
        "layers": _records(frame),
    }
    if target is not None:
        write(target, frame, result)
    emit(result, as_json, lambda console: _show_layers(console, layers, target))


def write(path: Path, frame: pd.DataFrame, result: Mapping[str, Any]) -> None:
    """The CSV, and how it came about as JSON beside it; raises HeadlensError where that cannot be written."""
    from headlens.scores import write_text

    write_text(path, frame.to_csv(index=False))
    write_text(path.with_suffix(".json"), json.dumps(plain(result), indent=1, allow_nan=False) + "\n")


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows with None for what is missing."""
    return frame.astype(object).where(frame.notna(), None).to_dict(orient="records")


def _show_curve(console: Console, curve: Curve, result: Mapping[str, Any], target: Path | None) -> None:
    for figure in SHOWN_FIGURES:
        if curve.baseline.figure(figure) is not None and (figure == curve.figure or figure in ("loss", "accuracy")):
            _show_figure(console, curve, figure)
    undecided = {one["penalty"]: one["undecided"] for one in result["gates"]}
    for point in curve.series("gates"):
        found = point.result.need(curve.figure)
        rounded = f"; {n} gates were undecided and rounded" if (n := undecided.get(point.penalty)) else ""
        console.print(
            f"Learned gates, penalty {point.penalty:g}: {100 * point.fraction:.3g} % off, {curve.figure} "
            f"{found.value:.5g} ({found.delta:+.3g} ± {found.delta_sem:.2g}{rounded}).",
            markup=False,
        )
    console.print(result["chance"]["sentence"], markup=False)
    for one in result["budgets"]:
        console.print(one["sentence"], markup=False)
    where = "" if target is None else f" Written to {target} and {target.with_suffix('.json').name}."
    facts = curve.provenance
    console.print(
        f"{facts['examples']} examples ({facts['data']}, {facts['split']}), {facts['passes']:g} passes over them, "
        f"{facts['cached']} points from the store; ± is the standard error over examples of the difference from all "
        f"on.{where}",
        markup=False,
    )


def _show_figure(console: Console, curve: Curve, figure: str) -> None:
    """One row for each share of the heads, one column for each order."""
    names = [name for name in ("ranked", "reverse", "greedy") if curve.series(name)]
    rows = []
    seeds = curve.random_seeds
    random = [{p.heads_off: p.result.need(figure).value for p in curve.series("random", seed)} for seed in seeds]
    series = {name: {p.heads_off: p.result.need(figure) for p in curve.series(name)} for name in names}
    for point in curve.series("ranked"):
        count = point.heads_off
        cells: list[Any] = [f"{100 * point.fraction:.3g} %", count, series["ranked"][count].value]
        cells += [series["ranked"][count].delta_sem, *(series[name][count].value for name in names[1:])]
        if random:
            values = [order[count] for order in random]
            cells += [f"{min(values):.5g} to {max(values):.5g}"]
        rows.append(cells)
    columns = ["off", "heads", "ranked", "±", *names[1:], *([f"random ({len(random)})"] if random else [])]
    console.print(figure, style="bold", markup=False)
    table(console, columns, rows, numbers=columns)


def _show_layers(console: Console, layers: AllButOne, target: Path | None) -> None:
    columns = ("site", "layer", "kept", "change", "±", "score half", "control", "control change", "± ")
    rows = [
        (
            one.site,
            one.layer,
            one.kept,
            one.result.delta,
            one.result.delta_sem,
            -one.score_cost if one.higher_is_better else one.score_cost,
            one.control,
            one.control_result.delta,
            one.control_result.delta_sem,
        )
        for one in layers.layers
    ]
    table(console, columns, rows, numbers=columns[1:])
    console.print(layers.sentence(), markup=False)
    where = "" if target is None else f" Written to {target} and {target.with_suffix('.json').name}."
    console.print(
        f"Change of {layers.metric} with one head of that layer on, all others of the layer off; control: a head drawn "
        f"by the seed; {layers.examples} examples.{where}",
        markup=False,
    )
