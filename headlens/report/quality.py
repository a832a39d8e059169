"""How good each model of a report is on held-out examples, with error bars and paired differences."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scipy.stats import t as student_t

from headlens.metrics import METRICS
from headlens.pruning.outcomes import Outcome, Yardstick
from headlens.report.models import CUT, FULL, RECOVERED, Subjects

if TYPE_CHECKING:
    from headlens.data.encode import EncodedData
    from headlens.evaluate import Measured

NAMES = {
    "loss": "Loss",
    "perplexity": "Perplexity",
    "accuracy": "Accuracy",
    "drift": "Distance from the full model",
}
UNITS = {
    "loss": "nats per prediction, less is better",
    "perplexity": "e to the loss, less is better",
    "accuracy": "share of predictions, more is better",
    "drift": "less is better",
}
SURE = 0.95


@dataclass(frozen=True)
class Figure:
    """One figure of one model.

    Attributes:
        metric: ``loss``, ``perplexity``, ``accuracy`` or ``drift``.
        role: which model.
        value, sem: with its standard error over examples.
        delta, low, high: change against the full model with its 95 % interval (paired by example; t distribution);
            NaN for the full model itself, and for the drift, which is such a change by itself.
        value_low, value_high: 95 % interval of the value.
    """

    metric: str
    role: str
    value: float
    sem: float
    delta: float
    low: float
    high: float
    value_low: float
    value_high: float

    @property
    def clear(self) -> bool:
        """Whether the interval of the change leaves 0 out."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True)
class Quality:
    """All figures on one set of examples.

    Attributes:
        figures: by metric and role.
        data, split, examples, predictions, data_hash: what was measured on.
        main: the metric that sentences are about.
    """

    figures: Mapping[tuple[str, str], Figure]
    data: str
    split: str
    examples: int
    predictions: int
    data_hash: str
    main: str

    @property
    def metrics(self) -> list[str]:
        """Metrics that apply, in a fixed order."""
        return [name for name in NAMES if any(metric == name for metric, _ in self.figures)]

    def of(self, metric: str) -> list[Figure]:
        """One metric of every model, the full one first."""
        return [self.figures[metric, role] for role in (FULL, CUT, RECOVERED) if (metric, role) in self.figures]

    def sentence(self) -> str:
        """What changed, in words with the numbers."""
        found = {figure.role: figure for figure in self.of(self.main)}
        title = NAMES[self.main]
        if self.main == "drift":
            parts = [f"{with_error(f.value, f.sem)} ({f.role})" for role, f in found.items() if role != FULL]
            return (
                f"{title} ({_drift_unit(self)}): {', '.join(parts)}." if parts else "Only the full model was measured."
            )
        full = found[FULL]
        many = f"{self.examples} held-out example{'' if self.examples == 1 else 's'}"
        parts = [f"{title} on {many}: {with_error(full.value, full.sem)} (full)"]
        for role, figure in found.items():
            if role != FULL:
                word = "" if figure.clear else ", which may be chance"
                span = "" if math.isnan(figure.low) else f" [{figure.low:+.3g}, {figure.high:+.3g}]"
                parts.append(f"{figure.value:.4g} ({role}), a change of {figure.delta:+.3g}{span}{word}")
        alone = " One example gives no error bar." if self.examples == 1 else ""
        return "; ".join(parts) + "." + alone

    def describe(self) -> list[dict[str, Any]]:
        """Every figure, JSON-ready but for NaN."""
        return [vars(figure) | {} for figure in self.figures.values()]


def quality(
    subjects: Subjects, data: EncodedData, *, batch_size: int = 8, on_progress: Callable[[int, int], None] | None = None
) -> Quality:
    """Measures every model on the same examples.

    Args:
        subjects: the models.
        data: held-out examples, tokenised.
        batch_size: examples a forward pass.
        on_progress: called with (done, total) examples of the model that is measured.
    """
    yardstick = Yardstick(data, subjects.full.lens, batch_size=batch_size)
    outcomes = {one.role: yardstick.measure(one.lens, on_progress) for one in subjects.all}
    full = outcomes[FULL]
    figures: dict[tuple[str, str], Figure] = {}
    reach = float(student_t.ppf((1 + SURE) / 2, max(1, len(data) - 1)))
    for role, outcome in outcomes.items():
        for name, measured in _measured(outcome, full).items():
            figures[name, role] = _figure(name, role, measured, reach)
    main = "loss" if full.has("loss") else "drift"
    return Quality(figures, data.name, data.split, len(data), data.tokens, data.hash, main)


def _measured(outcome: Outcome, full: Outcome) -> dict[str, Measured]:
    found = {name: outcome.against(full, name) for name in METRICS if outcome.has(name)}
    words = outcome.perplexity(full)
    return found if words is None else {**found, "perplexity": words}


def _figure(name: str, role: str, measured: Measured, reach: float) -> Figure:
    no_change = role == FULL or name == "drift"
    delta, error = (math.nan, math.nan) if no_change else (measured.delta, measured.delta_sem)
    return Figure(
        metric=name,
        role=role,
        value=measured.value,
        sem=measured.sem,
        delta=delta,
        low=delta - reach * error,
        high=delta + reach * error,
        value_low=measured.value - reach * measured.sem,
        value_high=measured.value + reach * measured.sem,
    )


def _drift_unit(found: Quality) -> str:
    return "1 - cosine" if found.main == "drift" else "KL, nats"


def with_error(value: float, sem: float) -> str:
    """A number with its standard error, where there is one."""
    return f"{value:.4g}" if math.isnan(sem) else f"{value:.4g} ± {sem:.2g}"
