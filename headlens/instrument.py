"""The hooks: installed once on a model, they do what the current :class:`headlens.run.Run` says and else nothing."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from headlens.calls import Mark, call_one_at_a_time, replace_call
from headlens.errors import ModelError
from headlens.patterns import call_attention
from headlens.run import Edit, Run, StopForward, current

if TYPE_CHECKING:
    from torch import Tensor, nn
    from transformers import PreTrainedModel

    from headlens.models.families import SitePlaces

_owners = itertools.count(1)


@dataclass(frozen=True)
class Owner(Mark):
    """The number under which runs address an instrumented model, and its stacks."""

    number: int
    stacks: tuple[str, ...]


@dataclass(frozen=True)
class Where(Mark):
    """The address of a hooked module; ``layers`` has several entries where layers share one module.

    Attributes:
        owner, site, stack: as in :class:`headlens.run.Run`.
        layers: the layers that the module serves.
        depth: number of layers in the stack.
        heads, d_head: how its heads lie side by side.
        device: where ``z`` and patterns are handed out, in a model that is spread over several; None: where they are.
    """

    owner: int
    site: str
    stack: str
    layers: tuple[int, ...]
    depth: int
    heads: int
    d_head: int
    device: torch.device | None = None

    def layer(self, run: Run) -> int:
        """The layer that is running now; counted by block calls where one module serves many layers."""
        if len(self.layers) == 1:
            return self.layers[0]
        return (_calls(run, self.stack) - 1) % self.depth

    def hand_out(self, found: Tensor) -> Tensor:
        """What a callback gets: on the device of the inputs, whichever one the layer is on."""
        return found if self.device is None else found.to(self.device)


@dataclass(frozen=True)
class BlockAt(Mark):
    """The address of a block: the indices in its stack at which it is called, and the stack's depth."""

    owner: int
    stack: str
    indices: tuple[int, ...]
    depth: int


def instrument(
    model: PreTrainedModel,
    sites: tuple[SitePlaces, ...],
    *,
    device: torch.device | None = None,
    one_at_a_time: bool = False,
) -> int:
    """Installs the hooks on ``model`` and returns the owner number under which runs address it.

    Args:
        model: to be instrumented.
        sites: where its heads are.
        device: of the inputs, where the model is spread over several devices.
        one_at_a_time: forward passes of different threads wait for each other.

    With no run in the context every hook returns at once and the model's outputs are the plain ones, bit for bit.

    Raises:
        ModelError: when the model has been instrumented before (open it once and share the Lens).
    """
    if getattr(model, "_headlens_owner", None) is not None:
        raise ModelError("this model is open already: share the Lens that open_model gave for it")
    number = next(_owners)
    owner = Owner(number, tuple({site.stack for site in sites}))
    for where, place in _addresses(number, sites, device):
        place.out_proj._headlens_where = where
        _hook_once(place.out_proj, _at_out_proj)
        place.attention._headlens_where = where
        replace_call(place.attention, call_attention)
    for at, block in _blocks(number, sites):
        block._headlens_block = at
        replace_call(block, _call_block)
    for root in (model.base_model, model):
        root._headlens_owner = owner  # type: ignore[assignment]
        _hook_once(root, _reset_calls)
    if one_at_a_time:
        call_one_at_a_time(model)
    return number


def _addresses(
    owner: int, sites: tuple[SitePlaces, ...], device: torch.device | None = None
) -> list[tuple[Where, Any]]:
    """One address per distinct module, with all the layers that it serves."""
    found = []
    for site in sites:
        layers_of: dict[int, list[int]] = {}
        for layer, place in enumerate(site.layers):
            layers_of.setdefault(id(place.out_proj), []).append(layer)
        for layers in layers_of.values():
            place = site.layers[layers[0]]
            depth = len(site.layers)
            where = Where(owner, site.name, site.stack, tuple(layers), depth, place.heads, place.d_head, device)
            found.append((where, place))
    return found


def _blocks(owner: int, sites: tuple[SitePlaces, ...]) -> list[tuple[BlockAt, Any]]:
    """One address per distinct block; two sites of one stack share their blocks."""
    indices: dict[int, tuple[SitePlaces, nn.Module, dict[int, None]]] = {}
    for site in sites:
        for index, place in enumerate(site.layers):
            indices.setdefault(id(place.block), (site, place.block, {}))[2][index] = None
    return [
        (BlockAt(owner, site.stack, tuple(found), len(site.layers)), block) for site, block, found in indices.values()
    ]


def _hook_once(module: nn.Module, hook: Callable[..., Any]) -> None:
    """Registers a pre-hook; a deep copy of an instrumented model has it already."""
    if hook not in module._forward_pre_hooks.values():
        module.register_forward_pre_hook(hook)


def _calls(run: Run, stack: str) -> int:
    return run.calls.get((stack, threading.get_ident()), 0)


def _reset_calls(module: Any, args: tuple[Any, ...]) -> None:  # noqa: ARG001
    """Forward pre-hook of the model: no block has been called yet."""
    owner: Owner | None = module._headlens_owner
    run = None if owner is None else current(owner.number)
    if owner is not None and run is not None:
        for stack in owner.stacks:
            run.calls.pop((stack, threading.get_ident()), None)


def _at_out_proj(module: Any, args: tuple[Tensor, ...]) -> tuple[Tensor, ...] | None:
    """Forward pre-hook of an output projection: hands out ``z``, then applies the layer's edit."""
    where: Where | None = module._headlens_where
    run = None if where is None else current(where.owner)
    if where is None or run is None or where.heads == 0:
        return None
    key = (where.site, where.layer(run))
    edit = run.edits.get(key)
    wants = run.wants_z(key)
    if edit is None and not wants:
        return None
    z = args[0].unflatten(-1, (where.heads, where.d_head))  # [..., heads * d_head] -> [..., heads, d_head]
    if wants and run.on_z is not None:
        run.on_z(*key, where.hand_out(z.detach()))
    return None if edit is None else (_edited(z, edit).flatten(-2), *args[1:])


def _edited(z: Tensor, edit: Edit) -> Tensor:
    """``z`` after an edit, in its own dtype and on its own device, wherever the edit was made."""
    if edit.off is not None:
        off = edit.off.to(z.device)[:, None, :, None]
        z = z.masked_fill(off, 0.0) if edit.value is None else z.where(~off, edit.value.to(z.device))
    if edit.gate is not None:
        # A float32 gate on half-precision z: the product's gradient is summed in float32.
        z = (z * edit.gate.to(z.device)[:, None, :, None]).to(z.dtype)
    return z


def _call_block(block: Any, call: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Runs a block, or hands out the recorded output of one that is skipped."""
    at: BlockAt | None = block._headlens_block
    run = None if at is None else current(at.owner)
    if at is None or run is None:
        return call(block, *args, **kwargs)
    called = _calls(run, at.stack)
    run.calls[at.stack, threading.get_ident()] = called + 1
    index = at.indices[0] if len(at.indices) == 1 else called % at.depth
    replay = run.replay
    if replay is not None and at.stack in replay.outputs:
        skipped, output = replay.outputs[at.stack]
        if index < skipped:
            return output
    output = call(block, *args, **kwargs)
    if run.on_block is not None:
        run.on_block(at.stack, index, output)
    if replay is not None and replay.stop == (at.stack, index):
        raise StopForward(output)
    return output


def repeat_rows(output: Any, rows: int, times: int) -> Any:
    """A block's output for ``rows`` examples, as it would be for the rows ``times`` times over (``Batch.repeat``).

    Tensors that do not depend on the examples (T5's position bias has one row for all) stay as they are.

    Args:
        output: what ``Run.on_block`` gave: a tensor, or a tuple of tensors and other things.
        rows: number of rows it was computed for.
        times: number of copies.
    """
    if isinstance(output, torch.Tensor):
        if output.dim() == 0 or output.shape[0] != rows:
            return output
        return output.repeat(times, *[1] * (output.dim() - 1))
    if isinstance(output, (tuple, list)):
        return type(output)(repeat_rows(part, rows, times) for part in output)
    return output
