"""Models without an adapter: their heads are found by watching one small forward pass.

Nothing is taken from names. The pass shows what each attention computes (``pattern @ value``, head by head) and which
linear layer receives exactly these numbers, head after head; that layer is the output projection. A model is accepted
only if this holds once in each block of one list of blocks, else it is refused with a sentence that says why.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import torch
from torch import nn

from headlens.errors import ModelError
from headlens.models.families.base import Columns, Family, Place, SitePlaces, in_out
from headlens.models.trial import equal, run_trial, unclear

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from headlens.models.trial import Attended, Trial


@dataclass(frozen=True)
class FoundLayer:
    """Where one layer is (dotted paths from the model) and how its heads lie."""

    block: str
    attention: str
    out_proj: str
    value_proj: str | None
    heads: int
    kv_heads: int
    d_head: int
    causal: bool


class Structural(Family):
    """A family of one class, found by :func:`by_structure`."""

    def __init__(self, name: str, model_type: str, layers: tuple[FoundLayer, ...]) -> None:
        self.name = name
        self.model_types = (model_type,)
        self.note = (
            f"HeadLens has no adapter for {name}: its heads were found by a trial pass that proves where they are."
        )
        self.layers = layers

    def sites(self, model: PreTrainedModel) -> tuple[SitePlaces, ...]:
        """See the base class."""
        get = model.get_submodule
        places = tuple(
            Place(get(f.block), get(f.attention), get(f.out_proj), f.heads, f.kv_heads, f.d_head, f.causal)
            for f in self.layers
        )
        return (SitePlaces("self", "self", places),)

    def qkv(self, place: Place) -> Mapping[str, Columns]:
        """The value projection where the trial pass showed one; nothing is known of q and k."""
        for name, module in place.block.named_modules():
            if any(f.value_proj is not None and f.value_proj == f"{f.block}.{name}" for f in self.layers):
                index = torch.arange(place.kv_heads * place.d_head).reshape(place.kv_heads, place.d_head)
                return {"v": Columns(module, index)}
        return {}


def by_structure(model: PreTrainedModel) -> Structural:
    """Finds the heads of a model of any class.

    Raises:
        ModelError: no attention heads, or it is not clear where they are; names the class and what was unclear.
    """
    name = type(model).__name__
    trial = run_trial(model)
    if not trial.attended:
        if any("attention" in type(module).__name__.lower() for module in model.modules()):
            raise unclear(name, "its attention is not computed as pattern times values")
        raise ModelError(f"{name} has no attention heads: nothing in its forward pass is an attention")
    blocks = [_block_of(model, name, found) for found in trial.attended]
    lists = {block.rpartition(".")[0] for block in blocks}
    if len(lists) > 1:
        raise unclear(name, f"it has more than one stack of attention layers ({', '.join(sorted(lists))})")
    (stack,) = lists
    repeated = [block for block, count in Counter(blocks).items() if count > 1]
    if repeated:
        raise unclear(name, f"{repeated[0]} attends more than once in a forward pass")
    expected = [f"{stack}.{i}" for i in range(len(cast(nn.ModuleList, model.get_submodule(stack))))]
    if blocks != expected:
        raise unclear(name, f"{len(blocks)} of the {len(expected)} blocks in {stack} attend, or not in their order")
    found = zip(blocks, trial.attended, strict=True)
    layers = tuple(_layer(model, name, block, attended, trial) for block, attended in found)
    return Structural(name, model.config.model_type, layers)


def _block_of(model: PreTrainedModel, name: str, found: Attended) -> str:
    """Path of the outermost listed block around an attention and its one output projection."""
    if len(found.out_proj) != 1:
        how_many = "no" if not found.out_proj else "more than one"
        raise unclear(name, f"{how_many} linear layer takes the heads of {found.module} side by side")
    parts = found.out_proj[0].split(".")
    for depth in range(1, len(parts)):
        if isinstance(model.get_submodule(".".join(parts[:depth])), nn.ModuleList):
            block = ".".join(parts[: depth + 1])
            if found.module == block or found.module.startswith(f"{block}."):
                return block
            break
    raise unclear(name, f"{found.module} is not in a list of blocks together with its output projection")


def _layer(model: PreTrainedModel, name: str, block: str, found: Attended, trial: Trial) -> FoundLayer:
    """Checks one attention and describes it."""
    if len(found.z) != 1:
        raise unclear(name, f"{found.module} cuts one input into {len(found.z)} windows that attend by themselves")
    heads, d_head = found.z.shape[2:]
    value = found.value[0]
    starts = [i for i in range(len(value)) if i == 0 or not torch.equal(value[i], value[i - 1])]
    kv_heads = len(starts)
    if heads % kv_heads or any(start * kv_heads != i * len(value) for i, start in enumerate(starts)):
        raise unclear(name, f"the {heads} query heads of {found.module} do not share its values evenly")
    out_proj = model.get_submodule(found.out_proj[0])
    if not _adds_up(found, out_proj):
        raise unclear(name, f"{found.out_proj[0]} does not project the heads of {found.module} one by one")
    merged = value[starts].transpose(0, 1).flatten(1)[None]  # [1, key, kv_heads * d_head]
    values = [p for p, made in trial.outputs.items() if p.startswith(f"{block}.") and equal(made, merged)]
    value_proj = values[0] if len(values) == 1 else None
    causal = found.pattern.shape[-1] > 1 and bool((found.pattern.triu(1) == 0).all())
    return FoundLayer(block, found.module, found.out_proj[0], value_proj, heads, kv_heads, d_head, causal)


def _adds_up(found: Attended, out_proj: nn.Module) -> bool:
    """Whether pattern times values gives ``z``, and the heads' projections add up to the layer's output."""
    heads, d_head = found.z.shape[2:]
    value = found.value.float().repeat_interleave(heads // found.value.shape[1], dim=1)
    weight = in_out(out_proj).float().unflatten(0, (heads, d_head))  # [heads, d_head, d_model]
    total = torch.einsum("bqhd,hdm->bqm", found.z.float(), weight)
    if getattr(out_proj, "bias", None) is not None:
        total = total + out_proj.bias.float()  # type: ignore[union-attr, operator]
    near = 0.02 if found.z.dtype in (torch.float16, torch.bfloat16) else 1e-3
    return (
        found.projected is not None
        and torch.allclose((found.pattern.float() @ value).transpose(1, 2), found.z.float(), rtol=near, atol=near)
        and torch.allclose(total, found.projected.float(), rtol=near, atol=near)
    )
