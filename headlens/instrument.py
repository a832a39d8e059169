"""The hooks: installed once on a model, they do what the current :class:`headlens.run.Run` says and else nothing."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headlens.errors import ModelError
from headlens.patterns import install_patterns
from headlens.run import Run, StopForward, current

if TYPE_CHECKING:
    from torch import Tensor, nn
    from transformers import PreTrainedModel

    from headlens.models.families import SitePlaces

_owners = itertools.count(1)


@dataclass(frozen=True)
class Where:
    """The address of a hooked module; ``layers`` has several entries where layers share one module."""

    owner: int
    site: str
    stack: str
    layers: tuple[int, ...]
    heads: int
    d_head: int

    def layer(self, run: Run) -> int:
        """The layer that is running now; counted per block call where one module serves many layers."""
        if len(self.layers) == 1:
            return self.layers[0]
        return self.layers[(run.calls.get(self.stack, 1) - 1) % len(self.layers)]


def instrument(model: PreTrainedModel, sites: tuple[SitePlaces, ...]) -> int:
    """Installs the hooks on ``model`` and returns the owner number under which runs address it.

    With no run in the context every hook returns at once and the model's outputs are the plain ones, bit for bit.

    Raises:
        ModelError: when the model has been instrumented before (open it once and share the Lens).
    """
    if getattr(model, "_headlens_owner", None) is not None:
        raise ModelError("this model is open already: share the Lens that open_model gave for it")
    owner = next(_owners)
    model._headlens_owner = owner  # type: ignore[assignment]
    for where, place in _addresses(owner, sites):
        place.out_proj.register_forward_pre_hook(_at_out_proj(where))
        install_patterns(place.attention, where)
    install_block_calls(owner, sites)
    model.register_forward_pre_hook(_reset_calls(owner))
    return owner


def _addresses(owner: int, sites: tuple[SitePlaces, ...]) -> list[tuple[Where, Any]]:
    """One address per distinct module, with all the layers that it serves."""
    found = []
    for site in sites:
        layers_of: dict[int, list[int]] = {}
        for layer, place in enumerate(site.layers):
            layers_of.setdefault(id(place.out_proj), []).append(layer)
        for layers in layers_of.values():
            place = site.layers[layers[0]]
            found.append((Where(owner, site.name, site.stack, tuple(layers), place.heads, place.d_head), place))
    return found


def _reset_calls(owner: int) -> Callable[..., None]:
    def reset(module: nn.Module, args: tuple[Any, ...]) -> None:  # noqa: ARG001
        run = current(owner)
        if run is not None:
            run.calls.clear()

    return reset


def _at_out_proj(where: Where) -> Callable[..., tuple[Tensor, ...] | None]:
    """Forward pre-hook of an output projection: hands out ``z``, then applies the layer's edit."""

    def hook(module: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...] | None:  # noqa: ARG001
        run = current(where.owner)
        if run is None:
            return None
        key = (where.site, where.layer(run))
        edit = run.edits.get(key)
        wants = run.wants_z(key)
        if edit is None and not wants:
            return None
        z = args[0].unflatten(-1, (where.heads, where.d_head))  # [..., heads * d_head] -> [..., heads, d_head]
        if wants and run.on_z is not None:
            run.on_z(*key, z.detach())
        if edit is None:
            return None
        if edit.off is not None:
            off = edit.off[:, None, :, None]
            z = z.masked_fill(off, 0.0) if edit.value is None else z.where(~off, edit.value)
        if edit.gate is not None:
            z = z * edit.gate[:, None, :, None]
        return (z.flatten(-2), *args[1:])

    return hook


def install_block_calls(owner: int, sites: tuple[SitePlaces, ...]) -> None:
    """Makes blocks skippable: each block's class is replaced by a subclass whose call looks at the current run.

    A forward hook cannot skip a module's work, and a replaced ``forward`` attribute would be shared by deep copies of
    the model and lost under accelerate's dispatch; a subclass has neither trouble.
    """
    indices: dict[int, tuple[str, nn.Module, list[int]]] = {}
    for site in sites:
        for index, place in enumerate(site.layers):
            _, _, found = indices.setdefault(id(place.block), (site.stack, place.block, []))
            if index not in found:
                found.append(index)
    for stack, block, found in indices.values():
        block._headlens_block = (owner, stack, tuple(found))  # type: ignore[assignment]
        block.__class__ = _replayable(type(block))


_replayable_classes: dict[type, type] = {}


def _replayable(cls: type[nn.Module]) -> type[nn.Module]:
    if cls not in _replayable_classes:
        _replayable_classes[cls] = type(
            cls.__name__, (cls,), {"__call__": _call_block, "__module__": cls.__module__, "_headlens_base": cls}
        )
    return _replayable_classes[cls]


def _call_block(self: Any, *args: Any, **kwargs: Any) -> Any:
    owner, stack, indices = self._headlens_block
    run = current(owner)
    base = self._headlens_base
    if run is None:
        return base.__call__(self, *args, **kwargs)
    called = run.calls.get(stack, 0)
    run.calls[stack] = called + 1
    index = indices[0] if len(indices) == 1 else indices[called % len(indices)]
    replay = run.replay
    if replay is not None and stack in replay.outputs:
        skipped, output = replay.outputs[stack]
        if index < skipped:
            return output
    output = base.__call__(self, *args, **kwargs)
    if run.on_block is not None:
        run.on_block(stack, index, output)
    if replay is not None and replay.stop == (stack, index):
        raise StopForward(output)
    return output
