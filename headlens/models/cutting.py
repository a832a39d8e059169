"""Models with fewer heads: how one is built from the config of the uncut model, and what it takes of its weights."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from headlens.errors import ModelError
from headlens.models.families import FAMILIES
from headlens.models.families.base import Family, Kept, SitePlaces, Slice
from headlens.models.families.kept import apply_slices
from headlens.models.labels import CONFIG_KEY, built_heads
from headlens.models.offloaded import is_offloaded

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PretrainedConfig, PreTrainedModel

    from headlens.models.labels import Labels


def cut_class(cls: type[PreTrainedModel], labels: Labels, where: str) -> type[PreTrainedModel]:
    """A subclass of ``cls`` that is built without the heads that are gone.

    It is a way to build: turn the finished model into a plain ``cls`` with :func:`plain`.

    Args:
        cls: transformers class.
        labels: which heads are left.
        where: what to name in an error, such as a folder.
    """

    def init(self: Any, config: PretrainedConfig, *args: Any, **kwargs: Any) -> None:
        cls.__init__(self, config, *args, **kwargs)
        with torch.device("cpu"):  # indices are numbers also while the model has none
            take_out(self, labels, where)

    names = {"__module__": cls.__module__, "__qualname__": cls.__qualname__, "__init__": init}
    return type(cls.__name__, (cls,), names)


def plain(model: PreTrainedModel, cls: type[PreTrainedModel]) -> PreTrainedModel:
    """``model``, built by a :func:`cut_class` of ``cls``, as a ``cls``."""
    model.__class__ = cls
    return model


def take_out(model: PreTrainedModel, labels: Labels, where: str) -> None:
    """Makes ``model`` smaller, where it is, until it has just the heads of ``labels``.

    Raises:
        ModelError: the model can be neither the uncut one nor have these heads.
    """
    family = cuttable_family(model)
    sites = family.sites(model)
    kept = _from_labels(sites, labels, where)
    stacks = family.stack_slices(sites, kept)
    for site in sites:
        for place, layer in distinct(site, kept[site.name]):
            if layer.changed:
                family.take_out(place, layer)
    apply_slices(stacks)
    family.adapt_stacks(sites, kept)


def slices_by_name(model: PreTrainedModel, kept: Mapping[str, Sequence[Kept]]) -> dict[str, Slice]:
    """What a cut takes of which parameter of ``model``; parameters that are not named stay as they are, or go."""
    family = cuttable_family(model)
    sites = family.sites(model)
    found = family.stack_slices(sites, kept)
    for site in sites:
        for place, layer in distinct(site, kept[site.name]):
            if layer.changed and layer.keep:
                found += family.slices(place, layer)
    paths = {module: path for path, module in model.named_modules()}
    return {f"{paths[cut.module]}.{cut.name}": cut for cut in found}


def cuttable_family(model: PreTrainedModel) -> Family:
    """The adapter of ``model``; raises ModelError for classes without one, which can be switched but not cut."""
    kind = getattr(model.config, "model_type", "")
    for family in FAMILIES:
        if kind in family.model_types:
            return family
    raise ModelError(
        f"{type(model).__name__} has no adapter, so its heads can be switched off but not cut out; "
        "use prune --masked, which keeps the shape"
    )


def distinct(site: SitePlaces, kept: Sequence[Kept]) -> list[tuple[Any, Kept]]:
    """Each layer that has weights of its own, once.

    Raises:
        ModelError: layers that share their weights are to lose different heads.
    """
    found: dict[int, tuple[Any, Kept]] = {}
    for number, (place, layer) in enumerate(zip(site.layers, kept, strict=True)):
        _, first = found.setdefault(id(place.out_proj), (place, layer))
        if first.keep != layer.keep:
            raise ModelError(
                f"{site.name} layer {number} shares its weights with another layer, which would keep other heads: in "
                "this model a head can go only from all layers that share it; choose the same heads in each"
            )
    return list(found.values())


def _from_labels(sites: Sequence[SitePlaces], labels: Labels, where: str) -> dict[str, list[Kept]]:
    """What has to go from a model that was built from its config alone."""
    kept: dict[str, list[Kept]] = {}
    for site in sites:
        layers = labels.get(site.name, ())
        if len(layers) != len(site.layers):
            raise ModelError(
                f"{where}: heads of {len(layers)} {site.name} layers are named, there are {len(site.layers)}"
            )
        for number, (place, layer) in enumerate(zip(site.layers, layers, strict=True)):
            keep, there, original = tuple(layer["heads"]), built_heads(layer), int(layer["original"])
            if place.heads != len(there):
                raise ModelError(
                    f"{where}: config.json gives {site.name} layer {number} {place.heads} heads where the list of "
                    f"heads that were kept expects {len(there)}; write the cut model again"
                )
            kv_of = tuple(head * int(layer["kv_original"]) // original for head in range(original))
            kept.setdefault(site.name, []).append(Kept(there, keep, kv_of))
    return kept


def copy_model(
    model: PreTrainedModel, change: Callable[[str, Tensor], Tensor | None], labels: Labels | None
) -> PreTrainedModel:
    """A model of the same class with the heads of ``labels``; ``change(name, tensor)`` gives what is not just copied.

    It is laid out without numbers and then given them one by one, so nothing is held twice.

    Raises:
        ModelError: some of the model's weights are not in memory.
    """
    if is_offloaded(model):
        raise ModelError("a copy needs every weight in memory; open the model without --device-map to cut or mask it")
    cls, config = type(model), copy.deepcopy(model.config)
    vars(config).pop("pruned_heads", None)  # transformers 4 would take it for a cut of this model
    if labels is not None:
        setattr(config, CONFIG_KEY, labels)
    with torch.device("meta"):
        made = plain(cut_class(cls, labels, "the model")(config), cls) if labels is not None else cls(config)
    source = model.state_dict()
    tensors: dict[str, Tensor] = {}
    copies: dict[tuple[int, tuple[int, ...]], Tensor] = {}  # tied weights stay one
    for name, wanted in made.state_dict().items():
        old = source[name].detach()
        if not wanted.numel():  # of a layer that has no head left
            tensors[name] = old.new_empty(wanted.shape)
            continue
        key = (old.data_ptr(), tuple(old.shape))
        new = change(name, old)
        if new is None:
            new = copies.setdefault(key, old.clone()) if key not in copies else copies[key]
        tensors[name] = new
    made.load_state_dict(tensors, assign=True)
    made.tie_weights()
    _copy_unsaved(model, made)
    if getattr(model, "generation_config", None) is not None:
        made.generation_config = copy.deepcopy(model.generation_config)
    return made.eval()


def _copy_unsaved(model: PreTrainedModel, made: PreTrainedModel) -> None:
    """Tensors that are no part of the state: rotary frequencies, causal masks and the like. None depends on heads."""
    old_modules = dict(model.named_modules())
    for path, module in made.named_modules():
        old: Any = old_modules.get(path)
        for name, buffer in list(module.named_buffers(recurse=False)):
            if buffer.is_meta:
                setattr(module, name, getattr(old, name).detach().clone())
        for name, value in list(vars(module).items()):
            if isinstance(value, torch.Tensor) and value.is_meta:
                setattr(module, name, getattr(old, name).detach().clone())
