"""What the folder of a recovered model says of its training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headlens.errors import ModelError
from headlens.report.figures import Dot, Dots, Lines, dots, lines
from headlens.significance import Z_95

if TYPE_CHECKING:
    from headlens.report.models import Subjects

KINDS = {
    "full": "full",
    "full + the same training": "full",
    "cut": "cut",
    "cut + recovered": "recovered",
    "random cut": "control",
    "random cut + recovered": "control",
}


@dataclass(frozen=True)
class Trained:
    """A training, as it was written down when it ended.

    Attributes:
        facts: what ``headlens.json`` says.
        sentences: what it brought, and whether the choice of heads mattered.
        curve: the watched examples over the steps; None without points.
        table: full, cut, recovered and random cuts; None where that was not measured.
        control: whether random cuts are in it.
    """

    facts: Mapping[str, Any]
    sentences: tuple[str, ...]
    curve: Lines | None
    table: Dots | None
    control: bool


def trained(subjects: Subjects) -> Trained | None:
    """The training of the recovered model; None without one, or where it was not finished.

    Raises:
        ModelError: what the folder says of it is broken.
    """
    one = subjects.recovered
    facts = None if one is None else one.sidecar.get("recovery")
    if one is None or not facts or not facts.get("finished"):
        return None
    try:
        for name in ("steps", "steps_done", "learning_rate", "objective", "seconds", "metric", "best_step"):
            facts[name]
        for name in ("train", "train_examples", "watched_examples", "report_examples"):
            facts["data"][name]
        rows = list(facts.get("table") or [])
        sentences = (str(facts["sentence"]), *(str(text) for text in facts.get("table_sentences", [])))
        control = any(row["name"].startswith("random") for row in rows)
        return Trained(facts, sentences, _curve(facts), _table(facts, rows), control)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ModelError(
            f"headlens.json of {one.name} has a broken record of its training; recover it again"
        ) from error


def _curve(facts: Mapping[str, Any]) -> Lines | None:
    points = facts["curve"]
    if len(points) < 2:
        return None
    watched = [(float(point["step"]), float(point["watched"])) for point in points]
    learned = [(float(p["step"]), float(p["train"])) for p in points if p["train"] is not None]
    series = {"watched": ("recovered", watched)}
    same_unit = facts["objective"] == "task" or facts["metric"] == "drift"
    if same_unit and learned:
        series["training"] = ("full", learned)
    best = next((point for point in watched if point[0] == facts["best_step"]), None)
    unit = "nats per prediction" if facts["metric"] == "loss" else "distance from the full model"
    return lines("Training after the cut", "step", f"{facts['metric']} ({unit})", series, best)


def _table(facts: Mapping[str, Any], rows: list[Mapping[str, Any]]) -> Dots | None:
    metric = facts["metric"]
    found = []
    for row in rows:
        value, sem = float(row[metric]), row.get(f"{metric}_sem")
        reach = Z_95 * float(sem) if sem is not None else float("nan")
        name = row["name"] if row["seed"] is None else f"{row['name']} {int(row['seed']) + 1}"
        text = f"{value:.4g}" if sem is None else f"{value:.4g} ± {float(sem):.2g}"
        found.append(Dot(name, value, value - reach, value + reach, text, KINDS.get(row["name"], "control")))
    if not found:
        return None
    unit = "nats per prediction" if metric == "loss" else "distance from the full model"
    return dots("Before and after training", f"{metric} ({unit})", found)
