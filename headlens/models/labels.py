"""Which heads a cut model still has: labels, written in its config and in ``headlens.json``. No torch here.

``{"self": [{"heads": [0, 2], "original": 4, "kv_original": 4}, ...]}``: for each layer of each site the labels of the
heads that are there, and how many query and KV heads the layer had before anything was cut. Where ``config.json`` by
itself describes a layer with other heads than the original ones, ``built`` names those.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headlens.errors import ModelError

if TYPE_CHECKING:
    from headlens.heads import HeadSet, Topology

Labels = Mapping[str, Sequence[Mapping[str, Any]]]
CONFIG_KEY = "headlens_heads"
"""Under this name the labels are in ``config.json``: so they survive when transformers alone saves the model again."""


def labels_of(topology: Topology, off: HeadSet, built: Labels | None) -> dict[str, list[dict[str, Any]]]:
    """The labels of a model from which heads are taken.

    Args:
        topology: the heads that it has before.
        off: those that go.
        built: the labels of the model whose config is kept, None where that is an uncut one.
    """
    gone = off.by_layer()
    found: dict[str, list[dict[str, Any]]] = {}
    for site in topology.sites:
        for number, shape in enumerate(site.layers):
            heads = [head for head in shape.heads if head not in gone.get((site.name, number), ())]
            layer = {"heads": heads, "original": shape.original, "kv_original": shape.original_groups}
            if built is not None and "built" in built[site.name][number]:
                layer["built"] = list(built[site.name][number]["built"])
            found.setdefault(site.name, []).append(layer)
    return found


def as_built(labels: Labels) -> dict[str, list[dict[str, Any]]]:
    """The same heads beside a config that describes just these."""
    return {site: [{**layer, "built": list(layer["heads"])} for layer in layers] for site, layers in labels.items()}


def built_heads(layer: Mapping[str, Any]) -> tuple[int, ...]:
    """Labels of the heads that a model has when it is built from its config alone."""
    return tuple(layer.get("built", range(int(layer["original"]))))


def checked(found: Any, where: str) -> Labels:
    """The labels as they were read from a file.

    Args:
        found: parsed JSON.
        where: the file, for the message.

    Raises:
        ModelError: they do not have the form above.
    """
    problem = _problem(found)
    if problem:
        raise ModelError(f"{where}: the list of heads that were kept is broken ({problem}); write the cut model again")
    return found


def _problem(found: Any) -> str:
    """What is wrong with labels, or nothing."""
    if not isinstance(found, dict) or not found or not all(isinstance(layers, list) for layers in found.values()):
        return "no layers by site"
    for site, layers in found.items():
        for number, layer in enumerate(layers):
            here = f"{site} layer {number}"
            counts: Any = [layer.get(name) for name in ("original", "kv_original")] if isinstance(layer, dict) else [0]
            if not all(type(count) is int and count > 0 for count in counts):
                return f"{here} does not say how many heads there were"
            for name in ("heads", "built"):
                heads = layer.get(name, [] if name == "built" else None)
                if not isinstance(heads, list) or not all(type(head) is int for head in heads):
                    return f"{here} has no list of heads"
                if heads != sorted(set(heads)) or (heads and not 0 <= heads[0] <= heads[-1] < counts[0]):
                    return f"{here} names heads that it cannot have"
            if not set(layer["heads"]) <= set(layer.get("built", layer["heads"])):
                return f"{here} names heads that it cannot have"
            if counts[0] % counts[1]:
                return f"{here}: {counts[0]} heads cannot share {counts[1]} KV heads"
    return ""
