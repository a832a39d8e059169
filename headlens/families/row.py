"""What is known of one model: a row of the comparison."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headlens.claims.base import Finding
from headlens.families.measures import MEASURES, Measure
from headlens.families.published import KINDS, PUBLISHED, Counterpart, Kind

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Cut:
    """What else the heads that can go cost, on the held-out half.

    Attributes:
        off: HEADS that are off.
        accuracy_baseline, accuracy, accuracy_sem: share of predictions that are right with all heads on, without them,
            and the standard error of the difference; None where the model predicts nothing.
        exact_baseline, exact: share of whole outputs that are right, where the model writes number words.
        outputs: number of outputs written; 0 for none.
    """

    off: str
    accuracy_baseline: float | None = None
    accuracy: float | None = None
    accuracy_sem: float | None = None
    exact_baseline: float | None = None
    exact: float | None = None
    outputs: int = 0

    def sentence(self) -> str:
        """What it says; empty where there is nothing but the metric itself."""
        parts = []
        if self.accuracy is not None and self.accuracy_baseline is not None:
            error = (
                ""
                if self.accuracy_sem is None or math.isnan(self.accuracy_sem)
                else f" (change ± {100 * self.accuracy_sem:.2g} points)"
            )
            parts.append(f"accuracy goes from {_percent(self.accuracy_baseline)} to {_percent(self.accuracy)}{error}")
        if self.exact is not None and self.exact_baseline is not None:
            parts.append(
                f"{_percent(self.exact_baseline)} of {self.outputs} numbers are written without a mistake, then "
                f"{_percent(self.exact)}"
            )
        return f"Without them {'; '.join(parts)}." if parts else ""


@dataclass(frozen=True)
class Row:
    """One model.

    Attributes:
        model, title, family, task: what it is.
        kind: which kind of model, for the published counterpart.
        heads: number of query heads.
        metric, limit, unit: what is measured, the change for the worse that is allowed, and its unit.
        data: the set; texts: which texts were compared, ``sets`` or the two ``halves`` of the model's own set.
        score_examples, held_out_examples, tokens: how much of it; tokens are those of the held-out examples.
        findings: by name of the measure.
        cut: what the removable heads cost besides, or None where none can go.
        seconds: that it took to measure, by measure.
    """

    model: str
    title: str
    family: str
    task: str
    kind: Kind
    heads: int
    metric: str
    limit: float
    unit: str
    data: str
    texts: str
    score_examples: int
    held_out_examples: int
    tokens: int
    findings: Mapping[str, Finding]
    cut: Cut | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)

    @property
    def short(self) -> str:
        """The model's name; of a folder only its last part."""
        path = Path(self.model)
        return path.name if path.is_absolute() or self.model.startswith((".", "~")) else self.model

    @property
    def layers(self) -> int:
        """Layers with more than one head: those that could do with one."""
        figure = self.findings["single-head"].figure
        return 0 if figure is None else len(figure.series[0].x)

    @property
    def kind_title(self) -> str:
        """The kind in words."""
        return KINDS[self.kind]

    def counterpart(self, measure: Measure) -> Counterpart | None:
        """What others found for this kind of model."""
        return PUBLISHED.get((measure.name, self.kind))

    def published(self, measure: Measure) -> str:
        """One line with source and grade; says so where nothing was found for this kind."""
        found = self.counterpart(measure)
        if found is not None:
            return found.published.line()
        if measure.name == "cross":
            return "no cross-attention, nothing to compare"
        return f"nothing found for this kind of model; for others: {measure.check.published.line()}"

    def to_json(self) -> dict[str, Any]:
        """Everything, JSON-ready."""
        plain = asdict(self) | {"seconds": dict(self.seconds)}
        plain["findings"] = {name: found.to_json() for name, found in self.findings.items()}
        return plain

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Row:
        """The row that :meth:`to_json` wrote."""
        findings = {name: Finding.from_json(one) for name, one in found["findings"].items()}
        cut = None if found["cut"] is None else Cut(**found["cut"])
        return cls(**{**found, "findings": findings, "cut": cut})

    def records(self) -> list[dict[str, Any]]:
        """A flat record for each measure, for tables and CSV."""
        return [self._record(measure) for measure in MEASURES if measure.name in self.findings]

    def _record(self, measure: Measure) -> dict[str, Any]:
        found = self.findings[measure.name]
        other = self.counterpart(measure)
        return {
            "model": self.model,
            "family": self.family,
            "kind": self.kind_title,
            "heads": self.heads,
            "measure": measure.name,
            "value": found.value,
            "low": found.low,
            "high": found.high,
            "unit": found.unit,
            "verdict": found.verdict,
            "published_value": None if other is None else other.value,
            "published": self.published(measure),
            "metric": self.metric,
            "limit": self.limit,
            "data": self.data,
            "texts": self.texts if measure.name == "texts" else None,
            "score_examples": self.score_examples,
            "held_out_examples": self.held_out_examples,
            "tokens": self.tokens,
            "seconds": round(self.seconds.get(measure.name, math.nan), 3),
            "sentence": found.sentence,
        }


def to_frame(rows: list[Row]) -> pd.DataFrame:
    """One row for each model and measure."""
    import pandas as pd

    return pd.DataFrame([record for row in rows for record in row.records()])


def _percent(value: float) -> str:
    return f"{100 * value:.3g} %"
