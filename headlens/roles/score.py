"""Every role score of every head, from patterns that are looked at layer by layer and never kept."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import torch

from headlens.errors import HeadlensError
from headlens.heads import Head
from headlens.roles.base import Detector, Input, Source
from headlens.roles.blocks import repeated_blocks
from headlens.roles.frequency import token_counts
from headlens.roles.needles import needle_texts
from headlens.roles.parses import parsed_stories
from headlens.roles.rare import RareWord
from headlens.roles.registry import DETECTORS
from headlens.roles.tallies import Tallies, TextSource
from headlens.run import Run

if TYPE_CHECKING:
    import pandas as pd

    from headlens.data.encode import EncodedData
    from headlens.heads import Topology
    from headlens.lens import Lens


@dataclass(frozen=True)
class RoleScores:
    """Role scores of every head of a model.

    Attributes:
        topology: which heads there are.
        scores: by role and site, float64 ``[layer, head]``; NaN where there is no such head or nothing to measure. A
            site for which a role makes no sense has no entry.
        examples: by role and site, index of the example in which the role shows best, int ``[layer, head]``; -1 for
            none. It counts the given data, or the random blocks for roles that look at those.
        seed: drew the random blocks and the stories.
        details: by role and site, in words what each head does best, str ``[layer, head]``; only for some roles.
    """

    topology: Topology
    scores: Mapping[str, Mapping[str, np.ndarray]]
    examples: Mapping[str, Mapping[str, np.ndarray]]
    seed: int
    details: Mapping[str, Mapping[str, np.ndarray]] = field(default_factory=dict)

    def of(self, head: Head) -> dict[str, float]:
        """Scores of one head by role, without those that could not be measured."""
        found = {
            role: by_site[head.site][head.layer, head.head]
            for role, by_site in self.scores.items()
            if head.site in by_site
        }
        return {role: float(score) for role, score in found.items() if np.isfinite(score)}

    def detail(self, head: Head, role: str) -> str:
        """What exactly a head does that has a role, in words; empty where the role says it all."""
        found = self.details.get(role, {}).get(head.site)
        return "" if found is None else str(found[head.layer, head.head] or "")

    def label(self, head: Head) -> str | None:
        """The role that suits a head best, of those whose threshold it passes; None when it passes none.

        Scores of different roles compare by how far they are on the way from their threshold to 1. The general ones
        (first token, positional, broad, prefix matching) count only where no other passes: an induction head, for one,
        rests on the first token wherever nothing repeats.
        """
        best: tuple[bool, float, str] | None = None
        for role, score in self.of(head).items():
            detector = DETECTORS[role]
            if detector.threshold is None or score < detector.threshold:
                continue
            found = (not detector.general, (score - detector.threshold) / (1 - detector.threshold), role)
            best = found if best is None or found[:2] > best[:2] else best
        return None if best is None else best[2]

    def labels(self) -> dict[Head, str | None]:
        """The label of every head."""
        return {head: self.label(head) for head in self.topology.heads()}

    def passing(self, role: str) -> list[Head]:
        """Heads whose score passes the role's threshold."""
        threshold = DETECTORS[role].threshold
        return [h for h in self.topology.heads() if threshold is not None and self.of(h).get(role, -1) >= threshold]

    def to_frame(self) -> pd.DataFrame:
        """Columns ``site, layer, head, role, score``: a row for each head and role of its site."""
        import pandas as pd

        rows = [
            (head.site, head.layer, head.head, role, by_site[head.site][head.layer, head.head])
            for head in self.topology.heads()
            for role, by_site in self.scores.items()
            if head.site in by_site
        ]
        return pd.DataFrame(rows, columns=["site", "layer", "head", "role", "score"])


def roles(
    lens: Lens,
    data: EncodedData | None,
    *,
    detectors: Collection[str] | None = None,
    seed: int = 0,
    batch_size: int = 8,
    on_progress: Callable[[int, int], None] | None = None,
) -> RoleScores:
    """Scores every head of every site by every detector that makes sense there.

    Args:
        lens: the model.
        data: tokenised examples for the roles that show on ordinary text; None leaves those out.
        detectors: names of the roles that are wanted (``DETECTORS`` takes all); None leaves out the costly ones.
        seed: draws the random blocks of the copying roles, the parsed stories, and the long texts.
        batch_size: examples a forward pass.
        on_progress: called with (done, total) batches; may raise to cancel.

    Raises:
        HeadlensError: an unknown role.
    """
    if unknown := {*(detectors or ())} - {*DETECTORS}:
        raise HeadlensError(f"unknown role {min(unknown)!r}; choose from {', '.join(DETECTORS)}")
    chosen = [name for name, each in DETECTORS.items() if not each.costly] if detectors is None else detectors
    wanted = [detector for name, detector in DETECTORS.items() if name in chosen]
    sources = _sources(lens, data, wanted, seed)
    work = [(name, batch) for name, source in sources.items() for batch in source.data.batches(batch_size)]
    tallies = {
        name: Tallies(lens, [detector for detector in wanted if detector.looks_at == name], source)
        for name, source in sources.items()
    }
    for done, (name, batch) in enumerate(work):
        tallies[name].batch = batch
        with torch.inference_mode():
            lens.forward(batch.inputs, Run(on_pattern=tallies[name]))
        if on_progress is not None:
            on_progress(done + 1, len(work))
    scores: dict[str, dict[str, np.ndarray]] = {}
    examples_of: dict[str, dict[str, np.ndarray]] = {}
    details: dict[str, dict[str, np.ndarray]] = {}
    for detector in wanted:
        found = tallies[detector.looks_at].results(detector) if detector.looks_at in tallies else {}
        if found:
            scores[detector.name] = {site: result.score for site, result in found.items()}
            examples_of[detector.name] = {site: result.example for site, result in found.items()}
            words = {site: result.detail for site, result in found.items() if result.detail is not None}
            details |= {detector.name: words} if words else {}
    return RoleScores(lens.topology, scores, examples_of, seed, details)


def _sources(lens: Lens, data: EncodedData | None, wanted: Sequence[Detector], seed: int) -> dict[Input, Source]:
    """What there is for the model to look at, of what is wanted."""
    found: dict[Input, Source | None] = {}
    inputs = {detector.looks_at for detector in wanted}
    if data is not None and "text" in inputs:
        counts = token_counts(lens, data) if any(isinstance(detector, RareWord) for detector in wanted) else None
        found["text"] = TextSource(data, counts)
    if lens.accepts("input_ids"):
        sizes: tuple[tuple[Input, int, int], ...] = (("twice", 50, 2), ("four times", 25, 4))
        for name, block, times in sizes:
            found[name] = repeated_blocks(lens, block, times, seed=seed) if name in inputs else None
        found["parsed"] = parsed_stories(lens, seed=seed) if "parsed" in inputs else None
        found["needle"] = needle_texts(lens, seed=seed) if "needle" in inputs else None
    return {name: source for name, source in found.items() if source is not None}
