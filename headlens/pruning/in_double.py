"""A model that is held in float32 (or less), run in float64: every number is widened where it is used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

PIECE = 2**22
"""So many numbers of a weight matrix are held in float64 at a time (32 MB)."""
_NARROW = (torch.float32, torch.float16, torch.bfloat16)
_ATEN = torch.ops.aten
_UNTOUCHED = (_ATEN.embedding.default, _ATEN.detach.default, _ATEN.clone.default, _ATEN.copy_.default)
"""They only move numbers, as views do, so the widening can wait (of an embedding, until few are left)."""


class InDouble(TorchDispatchMode):
    """Within it every arithmetic operation takes its numbers as float64 and gives float64.

    The weights stay as they are: a matrix is widened in pieces while it is multiplied, so no second copy of the model
    is held. The devices of Apple know no float64.
    """

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """One operation."""
        given = dict(kwargs or {})
        # A cast counts as a view, since it may give back what it was given, but a norm takes float32 by one.
        if (func.is_view and func.overloadpacket is not _ATEN.to) or func in _UNTOUCHED:
            return func(*args, **given)
        if given.get("dtype") in _NARROW:
            given["dtype"] = torch.float64
        if func is _ATEN.linear.default:
            return _multiplied(args[0], args[1].t(), args[2] if len(args) > 2 else None)
        if func is _ATEN.mm.default:
            return _multiplied(args[0], args[1], None)
        if func is _ATEN.addmm.default and not given:
            return _multiplied(args[1], args[2], args[0])
        if func is _ATEN._grouped_mm.default and args[0].dim() == 2 and args[1].dim() == 3:
            return _grouped(args[0], args[1], given["offs"] if "offs" in given else args[2])
        wide = tree_map(_wide, tuple(args))
        if func._schema.is_mutable:  # what is written to has to be the tensor itself
            written = func._schema.arguments
            wide = tuple(
                old if about.alias_info is not None and about.alias_info.is_write else new
                for old, new, about in zip(args, wide, written, strict=False)
            )
        return func(*wide, **{name: _wide(value) for name, value in given.items()})


def _wide(value: Any) -> Any:
    if isinstance(value, torch.dtype):
        return torch.float64 if value in _NARROW else value
    return value.double() if isinstance(value, Tensor) and value.dtype in _NARROW else value


def _multiplied(left: Tensor, right: Tensor, bias: Tensor | None) -> Tensor:
    """``left @ right + bias``, the columns of ``right`` in pieces."""
    left = left.double()
    columns = max(1, PIECE // max(1, right.shape[0]))
    found = torch.cat([left @ piece.double() for piece in right.split(columns, dim=1)], dim=-1)
    return found if bias is None else found + bias.double()


def _grouped(left: Tensor, right: Tensor, ends: Tensor) -> Tensor:
    """Each expert's rows of ``left`` times its matrix; ``ends`` are the row numbers where experts end."""
    rows = left.double().tensor_split(ends.long().cpu()[:-1])
    return torch.cat([mine @ matrix.double() for mine, matrix in zip(rows, right, strict=True)])
