"""Head scores: labelled numbers that know what produced them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from headlens.errors import HeadlensError

if TYPE_CHECKING:
    import pandas as pd

    from headlens.heads import Topology, Unit


@dataclass(frozen=True, repr=False)
class HeadScores:
    """One score for each head (or KV group) of a model, with its error and its provenance.

    Attributes:
        topology: which heads the columns stand for.
        values: by site, float64 ``[layer, head]``; larger means keep; NaN where there is no such head.
        sem: by site, standard error over examples ``[layer, head]``; NaN where it does not apply.
        n: number of examples; 0 where no data were needed.
        unit: ``head`` or ``kv``.
        method, metric, ablation: how the scores were made (None where it does not apply).
        reliability: split-half reliability of the ranking, or None where it cannot be computed.
        no_signal: why the ranking means nothing here, or empty.
        provenance: everything else that is needed to make them again.
    """

    topology: Topology
    values: Mapping[str, np.ndarray]
    sem: Mapping[str, np.ndarray]
    n: int
    unit: Unit
    method: str
    metric: str | None = None
    ablation: str | None = None
    reliability: float | None = None
    no_signal: str = ""
    provenance: Mapping[str, Any] = field(default_factory=dict)

    @property
    def array(self) -> np.ndarray:
        """``[layer, head]`` of a model with one site; raises HeadlensError with several."""
        if len(self.values) != 1:
            raise HeadlensError(f"this model has several sites ({', '.join(self.values)}); take scores.values[site]")
        return next(iter(self.values.values()))

    def flat(self) -> np.ndarray:
        """All existing scores in (site, layer, column) order, ``[heads]``."""
        return np.array([self.values[site][layer, column] for site, layer, column in self.columns()])

    def columns(self) -> list[tuple[str, int, int]]:
        """(site, layer, column) of every existing head or group."""
        return [
            (site.name, layer, column)
            for site in self.topology.sites
            for layer in range(len(site.layers))
            for column in site.columns(layer, self.unit)
        ]

    def ranked(self) -> list[tuple[str, int, int]]:
        """Columns from the most to the least important."""
        columns = self.columns()
        return [columns[i] for i in np.argsort(-self.flat(), kind="stable")]

    def stability(self) -> str:
        """One sentence on how far the ranking can be trusted."""
        if self.no_signal:
            return f"No ranking: {self.no_signal}."
        if self.n == 0:
            return "No data are behind this ranking, so it has no split-half reliability."
        if not self.n:
            return "No example is behind these scores, so nothing says how stable their ranking is."
        if self.reliability is None:
            return "How stable the ranking is cannot be said: it takes at least 4 examples and scores that differ."
        word = "stable" if self.reliability >= STABLE else "unstable"
        return f"Split-half reliability of the ranking: {self.reliability:.2f} ({word})."

    def to_frame(self) -> pd.DataFrame:
        """Columns ``site, layer, head, score, sem, n``, one row for each existing head."""
        import pandas as pd

        rows = [
            (site, layer, column, self.values[site][layer, column], self.sem[site][layer, column], self.n or None)
            for site, layer, column in self.columns()
        ]
        frame = pd.DataFrame(rows, columns=["site", "layer", "head", "score", "sem", "n"])
        return frame.astype({"n": "Int64"})

    def describe(self) -> dict[str, Any]:
        """The provenance as one JSON-ready object."""
        return {
            "method": self.method,
            "metric": self.metric,
            "ablation": self.ablation,
            "unit": self.unit,
            "n": self.n,
            "reliability": self.reliability,
            "stable": None if self.reliability is None or self.no_signal else bool(self.reliability >= STABLE),
            "no_signal": self.no_signal or None,
            **self.provenance,
        }

    def save(self, path: Path) -> Path:
        """Writes the CSV and, beside it, the provenance as JSON; returns the JSON's path.

        Raises:
            HeadlensError: the folder is missing or cannot be written.
        """
        if not path.name or path.suffix == ".json":
            raise HeadlensError(f"{path}: give the scores a name that ends in .csv, the provenance goes into .json")
        beside = path.with_suffix(".json")
        write_text(path, self.to_frame().to_csv(index=False))
        write_text(beside, json.dumps(self.describe(), indent=1, allow_nan=False) + "\n")
        return beside

    def __repr__(self) -> str:
        sites = ", ".join(f"{site} {' x '.join(map(str, array.shape))}" for site, array in self.values.items())
        kinds = ", ".join(kind for kind in (self.method, self.metric, self.ablation) if kind)
        sure = "" if self.reliability is None else f", reliability {self.reliability:.2f}"
        return f"HeadScores({kinds}, {sites}, n={self.n}{sure})"

    def _repr_html_(self) -> str:
        from headlens.notebook import scores_html

        return scores_html(self)


STABLE = 0.5
"""Rankings with a lower split-half reliability are called unstable."""


def write_text(path: Path, text: str) -> None:
    """Writes a whole file or nothing (a neighbour file that is then renamed); raises HeadlensError."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise HeadlensError(f"cannot write {path}: {error.strerror or error}; choose another place for it") from error
