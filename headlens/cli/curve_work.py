"""What ``headlens curve`` computes, once its options are read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headlens.cli.inputs import load
from headlens.cli.progress import Reporter

if TYPE_CHECKING:
    from headlens.data.dataset import DataSet, Split
    from headlens.data.encode import EncodedData
    from headlens.lens import Lens
    from headlens.metrics import Metric
    from headlens.pruning.all_but_one import AllButOne
    from headlens.pruning.bleu_points import BleuMeasure
    from headlens.pruning.curve import CurveSpec
    from headlens.pruning.learned_gates import LearnedGates
    from headlens.pruning.plan import Steps
    from headlens.pruning.points import Curve
    from headlens.switches import Ablation


@dataclass(frozen=True)
class Examples:
    """What heads are chosen on, and what is reported (as tensors and as it was read)."""

    choosing: EncodedData
    reported: EncodedData
    pairs: DataSet


@dataclass(frozen=True)
class CurveWork:
    """The computations of this command, with what they share."""

    lens: Lens
    steps: Steps
    examples: Examples
    batch_size: int | None
    seed: int
    resume: bool
    reporter: Reporter

    @property
    def _kept(self) -> dict[str, Any]:
        from headlens.store import Store

        return {"store": Store(), "resume": self.resume, "on_progress": self.reporter}

    def layers(self, metric: Metric, ablation: Ablation) -> AllButOne:
        """Every layer with its best head alone."""
        from headlens.pruning.all_but_one import all_but_one

        return all_but_one(
            self.lens,
            self.examples.choosing,
            self.examples.reported,
            metric,
            unit=self.steps.unit,
            sites=self.steps.sites,
            ablation=ablation,
            seed=self.seed,
            batch_size=self.batch_size,
            on_phase=self.reporter.phase,
            **self._kept,
        )

    def gates(self, penalties: list[float], count: int) -> list[LearnedGates]:
        """One set of learned gates for each penalty."""
        from headlens.pruning.learned_gates import sweep_penalties

        more: dict[str, Any] = {"count": count, "seed": self.seed, "on_phase": self.reporter.phase, **self._kept}
        return sweep_penalties(self.lens, self.examples.choosing, self.steps, penalties, **more)

    def bleu(self, max_tokens: int) -> BleuMeasure:
        """What measures BLEU on the reported pairs."""
        from headlens.pruning.bleu_points import BleuMeasure

        size = self.batch_size or 16
        return BleuMeasure(self.lens, self.examples.pairs, max_tokens, size, self.seed, **self._kept)

    def curve(self, spec: CurveSpec, gates: list[LearnedGates], bleu: BleuMeasure | None) -> Curve:
        """The curve."""
        from headlens.pruning.curve import curve

        chosen = bool(spec.method.needs or spec.greedy or gates)
        return curve(
            self.lens,
            self.examples.choosing if chosen else None,
            self.examples.reported,
            spec,
            gates=gates,
            bleu=bleu,
            batch_size=self.batch_size,
            on_phase=self.reporter.phase,
            **self._kept,
        )


def examples_for(
    lens: Lens,
    data: str | None,
    score_data: str | None,
    split: Split | None,
    limit: int | None,
    seed: int,
    max_tokens: int,
) -> Examples:
    """What is reported, and its other half (or ``score_data``) to choose on; a file is split only where asked."""
    from headlens.data.encode import encode

    reported = load(lens, data, split, limit, seed, default_split="held-out")
    if score_data is not None:
        choosing = load(lens, score_data, None, limit, seed, default_split="score")
    else:
        other: Split = "score" if reported.split == "held-out" else reported.split
        choosing = load(lens, data, other, limit, seed, default_split="score")
    encoded = [encode(lens, one, max_tokens=max_tokens, seed=seed) for one in (choosing, reported)]
    return Examples(encoded[0], encoded[1], reported)
