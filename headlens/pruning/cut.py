"""The cut: heads physically taken out of a model, and the proof that what is left does what the masked model does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from headlens.errors import HeadlensError
from headlens.models.cutting import copy_model, distinct, slices_by_name
from headlens.models.families.base import Kept, features
from headlens.models.labels import CONFIG_KEY, Labels, labels_of
from headlens.models.loading import Loaded
from headlens.pruning.proof import Proof, prove
from headlens.switches import off_mask

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel

    from headlens.heads import HeadSet, Topology
    from headlens.lens import Lens


@dataclass(frozen=True)
class Cut:
    """A model from which heads were taken, and what it was before.

    Attributes:
        loaded: the new model, as :class:`headlens.lens.Lens` takes it.
        off: the heads that were taken.
        removed: the same as HEADS.
        masked: the heads are still there, with a zero output matrix.
        labels: which heads are there now.
        parameters_before, parameters_after: numbers in the model, tied ones once.
        proof: that this model does what the old one does with the heads switched off.
        part_groups: labels of KV groups of which only some query heads went: their keys and values had to stay.
    """

    loaded: Loaded
    off: HeadSet
    removed: str
    masked: bool
    labels: Labels
    parameters_before: int
    parameters_after: int
    proof: Proof
    part_groups: tuple[str, ...]

    @property
    def model(self) -> PreTrainedModel:
        """The new model, a plain transformers model."""
        return self.loaded.model


def cut(lens: Lens, off: HeadSet) -> Cut:
    """Takes ``off`` out of a copy of the model; the old one stays as it is.

    Query, key, value and output matrices lose the heads' slices. A KV head goes only when no query head reads it any
    more. A layer that keeps no head becomes its output projection's bias. Besides the old model only the new, smaller
    one is held in memory.

    Raises:
        HeadError: a head that the model does not have (any more).
        HeadlensError: every head of the model was chosen.
        ModelError: the heads of this class cannot be cut out, or the new model does not do what the masked one does.
    """
    masks = off_mask(lens.topology, off)
    if len(off) == len(lens.topology.heads()):
        raise HeadlensError("every head of the model was chosen; leave at least one, or there is nothing to look at")
    kept = kept_by(lens.topology, off)
    slices = slices_by_name(lens.model, kept)
    built = getattr(lens.model.config, CONFIG_KEY, None)
    labels = labels_of(lens.topology, off, built)
    model = copy_model(lens.model, lambda name, tensor: slices[name].of(tensor) if name in slices else None, labels)
    proof = prove(lens, masks, model)
    return Cut(
        loaded=_loaded(lens, model, labels),
        off=off,
        removed=lens.topology.format(off),
        masked=False,
        labels=labels,
        parameters_before=lens.parameters,
        parameters_after=count(model),
        proof=proof,
        part_groups=part_groups(lens.topology, off),
    )


def mask(lens: Lens, off: HeadSet) -> Cut:
    """A copy of the model in its old shape in which the output matrices of ``off`` are zero: it runs anywhere.

    Nothing gets smaller or faster by it.

    Raises:
        HeadError: a head that the model does not have.
        ModelError: layers that share their weights are to lose different heads.
    """
    masks = off_mask(lens.topology, off)
    kept = kept_by(lens.topology, off)
    paths = {module: path for path, module in lens.model.named_modules()}
    zero: dict[str, tuple[int, list[int]]] = {}
    for site in lens.sites:
        for place, layer in distinct(site, kept[site.name]):
            gone = [i for i, head in enumerate(layer.heads) if head not in layer.keep]
            if gone:
                dim = 1 if hasattr(place.out_proj, "in_features") else 0
                zero[f"{paths[place.out_proj]}.weight"] = (dim, features(gone, place.d_head))

    def zeroed(name: str, tensor: Tensor) -> Tensor | None:
        if name not in zero:
            return None
        dim, index = zero[name]
        return tensor.index_fill(dim, torch.tensor(index, device=tensor.device), 0)

    built: Labels | None = getattr(lens.model.config, CONFIG_KEY, None)
    model = copy_model(lens.model, zeroed, built)
    proof = prove(lens, masks, model)
    return Cut(
        loaded=_loaded(lens, model, built),
        off=off,
        removed=lens.topology.format(off),
        masked=True,
        labels=built or {},
        parameters_before=lens.parameters,
        parameters_after=count(model),
        proof=proof,
        part_groups=(),
    )


def kept_by(topology: Topology, off: HeadSet) -> dict[str, list[Kept]]:
    """What stays of each layer, by site."""
    gone = off.by_layer()
    return {
        site.name: [
            Kept(shape.heads, tuple(h for h in shape.heads if h not in gone.get((site.name, i), ())), shape.kv_of)
            for i, shape in enumerate(site.layers)
        ]
        for site in topology.sites
    }


def part_groups(topology: Topology, off: HeadSet) -> tuple[str, ...]:
    """KV groups that lose query heads but not all of them."""
    found = []
    for (site, layer), gone in off.by_layer().items():
        shape = topology.site(site).layers[layer]
        for group in shape.groups:
            members = set(shape.members(group))
            if members & set(gone) and members - set(gone):
                found.append(topology.label(site, layer, group, "kv"))
    return tuple(found)


def count(model: PreTrainedModel) -> int:
    """Number of parameters, shared ones counted once."""
    return sum(parameter.numel() for parameter in model.parameters())


def _loaded(lens: Lens, model: PreTrainedModel, labels: Labels | None) -> Loaded:
    """The new model with the old one's tokenizer, ready to be opened."""
    return Loaded(
        model=model,
        tokenizer=lens.tokenizer,
        processor=lens.processor,
        config=model.config,
        task=lens.task,  # type: ignore[arg-type]
        name=lens.name,
        title=lens.title,
        source=lens.source,  # type: ignore[arg-type]
        path=lens.path,  # type: ignore[arg-type]
        notes=(),
        sidecar=None if labels is None else {"heads": labels},
    )
