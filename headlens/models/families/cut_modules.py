"""What attention modules become when their class does not run with the heads that are left.

Most classes run with fewer heads once their matrices and their own numbers agree. Where a class's ``forward`` does not
(KV groups of unequal size, a layer without any head), the module's class is replaced by a subclass of it that changes
what goes in or comes out; the rest of the code stays transformers' own.
"""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from headlens.models.families.projections import in_out

if TYPE_CHECKING:
    from torch import Tensor

    from headlens.models.families.places import Place

CACHES = ("cache", "past_key_values", "layer_past")
"""Names under which attention classes take the cache of keys and values."""
MARKS = 2
"""Numbers a token that stay in the cache of a layer without heads, see :func:`count_tokens`."""
_ENCODED = ("key_value_states", "encoder_hidden_states")


def become(module: nn.Module, part: type) -> None:
    """Puts ``part`` in front of the module's class; the class keeps its name."""
    if not isinstance(module, part):
        module.__class__ = _with(type(module), part)


@functools.cache
def _with(cls: type, part: type) -> type:
    def reduce(self: nn.Module, protocol: Any) -> tuple[Any, ...]:  # noqa: ARG001 - pickle's own signature
        return _bare, (cls, part), self.__dict__

    # The name stays: transformers looks classes up by it. Pickle does too, and has to be told how to make this one.
    names = {"__module__": cls.__module__, "__qualname__": cls.__qualname__, "__reduce_ex__": reduce}
    return type(cls.__name__, (part, cls), names)


def _bare(cls: type, part: type) -> Any:
    made: Any = _with(cls, part)
    return made.__new__(made)


@functools.cache
def cache_name(cls: type, part: type) -> str:
    """The argument in which the class behind ``part`` takes the cache."""
    behind: Any = cls.__mro__[cls.__mro__.index(part) + 1]
    taken = inspect.signature(behind.forward).parameters
    return next(name for name in CACHES if name in taken)


class OutputBias(nn.Module):
    """What is left of an output projection with no head in front of it: its bias, or zero.

    Takes ``[..., 0]`` and gives ``[..., out_features]``. Its ``weight`` has no input features, ``[out_features, 0]``,
    and is saved all the same: a class that expects the whole matrix stumbles over it, where it would draw a missing one
    at random.
    """

    in_features = 0
    weight: Tensor

    def __init__(self, projection: nn.Module) -> None:
        super().__init__()
        wide = in_out(projection)
        self.out_features = int(wide.shape[1])
        self.bias = getattr(projection, "bias", None)
        self.register_buffer("weight", wide.detach().new_empty(self.out_features, 0))

    def forward(self, z: Tensor) -> Tensor:
        """The bias at every position."""
        output = z.new_zeros(*z.shape[:-1], self.out_features)
        return output if self.bias is None else output + self.bias


class NoHeads:
    """Attention without heads: gives the output projection's bias.

    A cache still has to know how many tokens it has seen, which some code asks of this very layer; so one number a
    token is kept in it in place of keys, and one in place of values.
    """

    output_name: str = ""
    """Name of the output projection in the module; empty where it is outside."""

    def forward(self, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Takes what the class takes; there are no attention weights to hand out."""
        hidden: Tensor = args[0] if args else kwargs["hidden_states"]
        count_tokens(self, hidden, kwargs)
        return self.output(hidden), None

    def output(self, hidden: Tensor) -> Tensor:
        """What the layer writes, ``[rows, query, d_model]``; ``[rows, query, 0]`` where the projection is outside."""
        z = hidden.new_zeros(*hidden.shape[:-1], 0)
        return getattr(self, self.output_name)(z) if self.output_name else z


def count_tokens(attention: Any, hidden: Tensor, kwargs: dict[str, Any]) -> int:
    """Enters as many tokens as the layer reads into its cache; returns how many keys there are then.

    Args:
        attention: the module.
        hidden: what asks, ``[rows, query, d_model]``.
        kwargs: the module's arguments: the cache, and what cross-attention reads.
    """
    cache = next((kwargs[name] for name in CACHES if kwargs.get(name) is not None), None)
    encoded = next((kwargs[name] for name in _ENCODED if kwargs.get(name) is not None), None)
    read = hidden if encoded is None else encoded
    if cache is None:
        return int(read.shape[-2])
    layer = getattr(attention, "layer_idx", None)
    layer = attention.layer_id if layer is None else layer
    if encoded is not None:  # what the encoder said is entered once
        entered = getattr(cache, "is_updated", {layer: True})
        if entered.get(layer):
            return int(read.shape[-2])
        entered[layer] = True
    part = "self_attention_cache" if encoded is None else "cross_attention_cache"
    mark = read.new_zeros(read.shape[0], 1, read.shape[-2], 1)
    marks, _ = getattr(cache, part, cache).update(mark, mark.clone(), layer)
    return int(marks.shape[-2])


class OwnPairs:
    """Grouped attention whose KV heads serve unequal numbers of query heads.

    The class would pair them by one ratio; here each query head is handed its own KV head, after the cache, which
    keeps every KV head once.
    """

    kv_head_of_head: tuple[int, ...]

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """See the class in transformers."""
        name = cache_name(type(self), OwnPairs)
        kwargs[name] = _Pairing(kwargs.get(name), self.kv_head_of_head)
        return super().forward(*args, **kwargs)  # type: ignore[misc]


class _Pairing:
    """A cache (or none) whose keys and values come out once for each query head."""

    def __init__(self, cache: Any, reads: tuple[int, ...]) -> None:
        self.cache, self.reads = cache, reads

    def update(self, key: Tensor, value: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Enters ``[rows, kv_heads, new, d_head]``; returns all of it as ``[rows, heads, key, d_head]``."""
        if self.cache is not None:
            key, value = self.cache.update(key, value, *args, **kwargs)
        index = torch.tensor(self.reads, device=key.device)
        return key.index_select(1, index), value.index_select(1, index)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.cache, name)


def empty(place: Place) -> None:
    """Takes everything out of a layer that has lost its last head, but for the output projection's bias."""
    attention: Any = place.attention
    for name, child in list(attention.named_children()):
        if child is place.out_proj:
            attention.output_name = name
        elif any(True for _ in child.parameters()):
            setattr(attention, name, None)
    # Transformers' way of drawing new weights would look for the matrices.
    attention._is_hf_initialized = True
    parent, name = _parent(place.block, place.out_proj)
    setattr(parent, name, OutputBias(place.out_proj))


def _parent(root: nn.Module, wanted: nn.Module) -> tuple[nn.Module, str]:
    """The module that holds ``wanted``, and under which name."""
    for parent in root.modules():
        for name, child in parent.named_children():
            if child is wanted:
                return parent, name
    raise AssertionError("the output projection is not inside its block")
