"""Ready-made head sets of the switchboard; pure functions on labels and scores."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from headlens.heads import Head, HeadSet, Topology


def bottom(topology: Topology, values: Mapping[str, np.ndarray], share: float) -> HeadSet:
    """The ``share`` of heads with the lowest scores; equal ones in reading order, heads without a score last.

    Args:
        topology: the model's heads.
        values: scores ``[layer, head]`` by site.
        share: 0 to 1, of all heads; rounded to whole heads.
    """
    heads = list(topology.heads())
    scores = np.array([values[head.site][head.layer, head.head] for head in heads])
    count = round(share * len(heads))
    return HeadSet.of(heads[i] for i in np.argsort(scores, kind="stable")[:count])


def random_share(topology: Topology, share: float, seed: int) -> HeadSet:
    """A seeded random ``share`` of all heads."""
    heads = list(topology.heads())
    chosen = np.random.default_rng(seed).choice(len(heads), round(share * len(heads)), replace=False)
    return HeadSet.of(heads[i] for i in chosen)


def all_but_one(topology: Topology, site: str, layer: int, keep: int) -> HeadSet:
    """Every head of one layer except ``keep``."""
    return HeadSet.of(Head(site, layer, head) for head in topology.site(site).layers[layer].heads if head != keep)


def whole_layer(topology: Topology, site: str, layer: int) -> HeadSet:
    """Every head of one layer."""
    return HeadSet.of(Head(site, layer, head) for head in topology.site(site).layers[layer].heads)


def invert(topology: Topology, off: HeadSet) -> HeadSet:
    """Off becomes on and on becomes off."""
    return topology.heads() - off
