"""Predict, then measure: which heads a prediction is about, and what switching them off really does.

The heads are drawn from the model's shape (or its weights) and a seed, before anything is measured.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from headlens.errors import HeadlensError
from headlens.heads import Head, HeadSet
from headlens.interview.grading import Mark

if TYPE_CHECKING:
    from headlens.evaluate import Evaluation, Measured
    from headlens.heads import Topology
    from headlens.lens import Lens

Pick = Literal["depths", "sizes", "neighbours", "pair"]
LEVEL = 0.95
"""Two effects are told apart when their paired difference leaves zero out of this confidence interval."""
JOINT = ("more than the sum of both", "the sum of both, within the error", "less than the sum of both")


@dataclass(frozen=True)
class Trial:
    """What is predicted.

    Attributes:
        heads: labels of the heads that are switched off.
        options: the answers to choose from.
        joint: whether the question is about two heads together.
    """

    heads: tuple[str, ...]
    options: tuple[str, ...]
    joint: bool = False


@dataclass(frozen=True)
class Effect:
    """What one switch did: change of the metric, its standard error, positive = it hurts."""

    label: str
    change: float
    sem: float


@dataclass(frozen=True)
class Outcome:
    """What came out.

    Attributes:
        effects: in the order of the trial's heads; of a joint trial also both together, last.
        accepted: numbers of the options that the measurement does not rule out.
        metric, examples: what was measured, on how many examples.
        sentence: the result in words and numbers.
    """

    effects: tuple[Effect, ...]
    accepted: frozenset[int]
    metric: str
    examples: int
    sentence: str


def trial(lens: Lens, pick: Pick, seed: int) -> Trial:
    """Draws the heads.

    Raises:
        HeadlensError: the model has too few heads for this question.
    """
    rng = np.random.default_rng(seed)
    if pick == "depths":
        heads = _depths(lens.topology, rng)
    elif pick == "sizes":
        heads = _sizes(lens)
    else:
        heads = _neighbours(lens.topology, rng, 2 if pick == "pair" else 3)
    labels = tuple(lens.topology.label(head.site, head.layer, head.head) for head in heads)
    if len(set(labels)) < (2 if pick == "pair" else 3):
        raise HeadlensError("this model has too few heads for this question")
    return Trial(labels, JOINT, joint=True) if pick == "pair" else Trial(labels, labels)


def _depths(topology: Topology, rng: np.random.Generator) -> list[Head]:
    """A head of the first, the middle and the last layer; of several sites, one of each site's last layer."""
    if len(topology.sites) > 2:
        places = [(site.name, len(site.layers) - 1) for site in topology.sites][:3]
    else:
        site = next(iter(topology.sites))
        places = [(site.name, layer) for layer in sorted({0, len(site.layers) // 2, len(site.layers) - 1})]
    return [_any_of(topology, site, layer, rng) for site, layer in places if topology.site(site).layers[layer].heads]


def _any_of(topology: Topology, site: str, layer: int, rng: np.random.Generator) -> Head:
    return Head(site, layer, int(rng.choice(topology.site(site).layers[layer].heads)))


def _neighbours(topology: Topology, rng: np.random.Generator, count: int) -> list[Head]:
    """Heads of one layer, drawn among the layers that have enough."""
    places = [
        (site.name, layer, shape.heads)
        for site in topology.sites
        for layer, shape in enumerate(site.layers)
        if len(shape.heads) >= count
    ]
    if not places:
        return []
    site, layer, heads = places[int(rng.integers(len(places)))]
    return [Head(site, layer, int(head)) for head in sorted(rng.choice(heads, size=count, replace=False))]


def _sizes(lens: Lens) -> list[Head]:
    """The heads with the largest, the median and the smallest output weights (Frobenius norm of W_O), by label."""
    from headlens.models.families.base import output_weight

    norms = {
        Head(site.name, layer, label): float(norm)
        for site in lens.sites
        for layer, place in enumerate(site.layers)
        for label, norm in zip(
            lens.topology.site(site.name).layers[layer].heads,
            output_weight(place).float().flatten(1).norm(dim=1),
            strict=True,
        )
    }
    ranked = sorted(norms, key=lambda head: (norms[head], head))
    return sorted({ranked[0], ranked[len(ranked) // 2], ranked[-1]})


def measure(
    asked: Trial,
    topology: Topology,
    evaluate: Callable[[HeadSet], Evaluation],
    on_progress: Callable[[int, int], None] | None = None,
) -> Outcome:
    """Switches the heads off, one at a time (of a joint trial also together), and says which prediction holds.

    Args:
        asked: what is predicted.
        topology: of the model.
        evaluate: :func:`headlens.evaluate.evaluate`, or its live form, for one set of heads.
        on_progress: called with (done, total) switches.
    """
    sets = [topology.parse(label) for label in asked.heads]
    if asked.joint:
        sets.append(HeadSet.of(head for each in sets for head in each))
    found = []
    for done, off in enumerate(sets):
        found.append(evaluate(off))
        if on_progress is not None:
            on_progress(done + 1, len(sets))
    labels = [*asked.heads, " and ".join(asked.heads)] if asked.joint else list(asked.heads)
    effects = tuple(
        Effect(label, each.main.delta, each.main.delta_sem) for label, each in zip(labels, found, strict=True)
    )
    accepted, sentence = _joint(found, effects) if asked.joint else _worst(found, effects)
    return Outcome(effects, accepted, found[0].metric, found[0].examples, sentence)


def mark(outcome: Outcome, picked: int, options: int) -> Mark:
    """A prediction is right when the measurement does not rule it out; a tie between all is not counted."""
    if len(outcome.accepted) == options:
        return Mark(1.0, True, "Nothing can be told apart here, so this one is not counted.", counts=False)
    right = picked in outcome.accepted
    several = len(outcome.accepted) > 1
    return Mark(
        float(right), right, "More than one answer is within the error, and each of them counts." if several else ""
    )


def _worst(found: list[Evaluation], effects: tuple[Effect, ...]) -> tuple[frozenset[int], str]:
    top = int(np.argmax([effect.change for effect in effects]))
    accepted = {
        number for number in range(len(effects)) if number == top or not _apart(found[top].main, found[number].main)
    }
    best, metric = effects[top], found[0].metric
    said = f"{best.label} hurts most: the {metric} changes by {best.change:+.4f} ± {best.sem:.4f}"
    others = [effects[number].label for number in sorted(accepted - {top})]
    if others:
        said += f", but {' and '.join(others)} cannot be told apart from it on {found[0].examples} examples"
    return frozenset(accepted), said + "."


def _joint(found: list[Evaluation], effects: tuple[Effect, ...]) -> tuple[frozenset[int], str]:
    first, second, both = (each.main for each in found)
    gap, error = contrast(both, first, second)
    low, high = gap - error, gap + error
    number = 1 if not low > 0 and not high < 0 else (0 if gap > 0 else 2)
    total = effects[0].change + effects[1].change
    said = (
        f"Together {effects[2].change:+.4f}, the sum of both {total:+.4f}; difference {gap:+.4f} ± {error:.4f} (95 %)"
    )
    return frozenset({number}), f"{said}: {JOINT[number]}."


def _apart(first: Measured, second: Measured) -> bool:
    gap, error = contrast(first, second)
    return abs(gap) > error


def contrast(first: Measured, *others: Measured) -> tuple[float, float]:
    """``first`` minus the sum of ``others``, paired by example, and the half width of its 95 % interval.

    The standard error is that of a ratio of sums (:func:`headlens.metrics.ratio`), the width Student's t of n - 1;
    infinite with fewer than two examples.
    """
    from scipy.stats import t

    from headlens.metrics import ratio

    assert first.changes is not None
    assert first.weights is not None
    changes = first.changes - sum(other.changes for other in others)  # type: ignore[misc]
    value, sem = ratio(changes[:, None], first.weights)
    n = int((first.weights > 0).sum())
    if n < 2:
        return float(value[0]), float("inf")
    return float(value[0]), float(sem[0] * t.ppf((1 + LEVEL) / 2, n - 1))
