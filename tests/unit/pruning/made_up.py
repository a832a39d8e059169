"""Curves with given numbers, for tests of what is said about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from headlens.evaluate import Evaluation, Measured
from headlens.heads import HeadSet, LayerShape, SiteShape, Topology
from headlens.pruning.figures import SetResult
from headlens.pruning.plan import Steps
from headlens.pruning.points import Curve, Point
from headlens.scores import HeadScores

TOPOLOGY = Topology((SiteShape("self", (LayerShape(tuple(range(10)), 10, tuple(range(10)), 4, 10, True),) * 2),))
"""2 layers x 10 heads."""
EXAMPLES = 20
Values = Mapping[Any, Sequence[float]]
"""A figure's values by series (a random order by its seed), at equal steps from none to all heads off."""


def curve(values: Values, *, figure: str = "loss", sem: float = 0.0, held_out: bool = True) -> Curve:
    """A curve of one figure; random orders switch different heads off, all orders share none and all."""
    heads = list(TOPOLOGY.heads())
    points = []
    for number, (name, series) in enumerate(values.items()):
        shifted = heads[number:] + heads[:number]
        for index, value in enumerate(series):
            count = round(20 * index / (len(series) - 1))
            off = HeadSet.of(shifted[:count])
            task = "embedding" if figure == "drift" else "causal-lm"
            measured = Measured(series[0], value, 0.0, 0.0, sem if count else 0.0)
            also = {"drift": Measured(0.0, 0.0, 0.0, 0.0, 0.0)} if figure != "drift" else {}
            shown = {**also, figure: measured} if figure not in ("perplexity", "bleu") else also
            evaluation = Evaluation(figure, task, TOPOLOGY.format(off), "zero", shown, EXAMPLES, 100)
            extra = {figure: measured} if figure in ("perplexity", "bleu") else {}
            result = SetResult(off, evaluation, **extra)
            is_random = isinstance(name, int)
            points.append(Point("random" if is_random else name, name if is_random else None, count / 20, result))
    array = np.arange(20.0).reshape(2, 10)
    scores = HeadScores(TOPOLOGY, {"self": array}, {"self": array * np.nan}, 0, "head", "gradient")
    return Curve(tuple(points), figure, Steps(TOPOLOGY), scores, held_out)
