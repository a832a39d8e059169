"""What the map of heads shows at this moment: final scores, or the best that there is so far."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from headlens.scores import STABLE
from headlens.ui import methods, words
from headlens.ui.compute import CHEAP, Ask, Partial, scores_now, scores_of

if TYPE_CHECKING:
    from headlens.heads import Topology, Unit
    from headlens.scores import HeadScores
    from headlens.ui.choices import Chosen
    from headlens.ui.components.head_grid import ScaleKind
    from headlens.ui.jobs import Job


@dataclass(frozen=True)
class Shown:
    """Scores as they are drawn.

    Attributes:
        values, sem: ``[layer, column]`` by site.
        method: what they are (weight magnitude until the first real ones come).
        unit: of the scores.
        sentence: what they say, in numbers.
        kind: how they are coloured.
        final: the scores with their reliability, or None while they are not complete.
        exact: (site, layer) of the layers that are measured exactly already, while ``final`` is None.
        warning: why they must not be ranked, or empty.
    """

    values: dict[str, np.ndarray]
    sem: dict[str, np.ndarray]
    method: str
    unit: str
    sentence: str
    kind: ScaleKind = "sequential"
    final: HeadScores | None = None
    warning: str = ""
    exact: frozenset[tuple[str, int]] = frozenset()

    @property
    def ranked(self) -> bool:
        """Whether ranks may be told."""
        return self.final is not None and trusted(self.final)


def trusted(scores: HeadScores) -> bool:
    """Whether the ranking of these scores means something: there is a signal, and halves of the data agree."""
    return not scores.no_signal and (scores.n == 0 or (scores.reliability is not None and scores.reliability >= STABLE))


def shown_now(chosen: Chosen, ask: Ask, job: Job | None) -> Shown:
    """The scores of ``ask`` if they are there, else partial ones, else weight magnitude.

    Raises:
        HeadlensError: the scores cannot be normalised.
    """
    scores = scores_of(chosen.lens, chosen.data, ask)
    if scores is not None:
        return _finished(chosen, ask, scores)
    if job is not None and isinstance(job.partial, Partial) and job.status != "failed":
        return _partial(chosen, ask, job.partial)
    magnitude = scores_now(chosen.lens, None, replace(ask, method="magnitude", normalize="none"))
    lead = "Coloured by weight magnitude until the first layers are measured. "
    found = _finished(chosen, replace(ask, method="magnitude", normalize="none"), magnitude)
    return replace(found, sentence=lead + found.sentence, final=None)


def _finished(chosen: Chosen, ask: Ask, scores: HeadScores) -> Shown:
    plain = scores_of(chosen.lens, chosen.data, replace(ask, normalize="none")) or scores
    warning = "" if trusted(scores) else scores.stability()
    return Shown(
        dict(scores.values),
        dict(scores.sem),
        ask.method,
        _unit(chosen, ask),
        _sentence(chosen, ask, dict(plain.values)),
        _kind(ask),
        scores,
        warning,
    )


def _partial(chosen: Chosen, ask: Ask, partial: Partial) -> Shown:
    values, sem = dict(partial.values), dict(partial.sem)
    lead = "First-order estimates, until the exact numbers come. "
    if partial.exact:
        lead = f"Exact in {partial.layers_done} of {partial.layers} layers, first-order estimates in the others. "
    sentence = lead + _sentence(chosen, ask if partial.exact else replace(ask, method="gradient"), values)
    if not ask.signed:
        values = {site: np.abs(array) for site, array in values.items()}
    if ask.normalize == "layer":
        norms = {site: np.sqrt(np.nansum(array**2, axis=1, keepdims=True)) for site, array in values.items()}
        norms = {site: np.where(norm > 0, norm, np.nan) for site, norm in norms.items()}
        values = {site: array / norms[site] for site, array in values.items()}
        sem = {site: array / norms[site] for site, array in sem.items()}
    return Shown(values, sem, ask.method, _unit(chosen, ask), sentence, _kind(ask), exact=partial.exact)


def _kind(ask: Ask) -> ScaleKind:
    return "diverging" if ask.signed and ask.method in methods.SIGNED else "sequential"


def _unit(chosen: Chosen, ask: Ask) -> str:
    if ask.normalize == "layer":
        return "of the layer's l2 norm"
    return methods.unit_of(ask.method, ask.metric, chosen.lens.task)


def _sentence(chosen: Chosen, ask: Ask, values: dict[str, np.ndarray]) -> str:
    return words.count_sentence(
        values,
        metric=ask.metric,
        method=ask.method,
        total=len(columns(chosen.lens.topology, ask.unit)),
        unit_word="heads" if ask.unit == "head" else "KV groups",
    )


def columns(topology: Topology, unit: Unit) -> dict[str, tuple[str, int, int]]:
    """(site, layer, column) of every head or group by its label."""
    return {
        topology.label(site.name, layer, column, unit): (site.name, layer, column)
        for site in topology.sites
        for layer in range(len(site.layers))
        for column in site.columns(layer, unit)
    }


def needs_job(method: str) -> bool:
    """Whether the method looks at text, so that it takes a while."""
    return method not in CHEAP
