"""Attention patterns for one context, without changing what the model computes.

Models keep their default attention. Where that is ``sdpa``, which gives no weights, the arguments of the kernel's call
are read while an attention module runs whose pattern the current run asks for, and the weights that the kernel applies
are computed beside it. Where a module computes its weights anyway (eager families) they are taken from its output. The
model's configuration and its output are never touched, so asking for patterns changes no bit of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch.overrides import TorchFunctionMode

from headlens.errors import ModelError
from headlens.run import current

if TYPE_CHECKING:
    from torch import Tensor

    from headlens.instrument import Where

_SDPA = torch.nn.functional.scaled_dot_product_attention
SOFTMAX: frozenset[Any] = frozenset({torch.nn.functional.softmax, torch.softmax, torch.Tensor.softmax})


class KernelSpy(TorchFunctionMode):
    """Sees the torch calls that this thread makes inside the ``with`` block; passes them on as they are.

    Attributes:
        patterns: one pattern ``[rows, heads, query, key]`` for each call of the sdpa kernel.
        softmaxes: outputs of softmax calls, for modules that neither call the kernel nor return their weights.
    """

    def __init__(self) -> None:
        super().__init__()
        self.patterns: list[Tensor] = []
        self.softmaxes: list[Tensor] = []

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Called in place of each torch function; the mode is off while it runs."""
        kwargs = kwargs or {}
        output = func(*args, **kwargs)
        if func is _SDPA:
            self.patterns.append(sdpa_pattern(*args, **kwargs))
        elif func in SOFTMAX:
            self.softmaxes.append(output)
        return output


@torch.no_grad()
def sdpa_pattern(
    query: Tensor,
    key: Tensor,
    value: Tensor,  # noqa: ARG001 - same signature as the kernel
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,  # noqa: ARG001
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """The weights that ``scaled_dot_product_attention`` applies to the values for the same arguments.

    ``softmax(scale * query @ key^T + mask)``: a boolean mask says what is visible, a float mask is added. As in the
    kernel, a query that sees nothing gets weights of 0 everywhere.

    Returns:
        float32 ``[rows, heads, query, key]``.
    """
    query, key = query.float(), key.float()
    if enable_gqa:
        key = key.repeat_interleave(query.shape[1] // key.shape[1], dim=1)  # one key head serves several queries
    scores = query @ key.transpose(-1, -2) * (query.shape[-1] ** -0.5 if scale is None else scale)
    if is_causal:
        visible = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
        scores = scores.masked_fill(~visible, -torch.inf)
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        scores = scores.masked_fill(~attn_mask, -torch.inf)
    elif attn_mask is not None:
        scores = scores + attn_mask.float()
    return scores.softmax(-1).nan_to_num(0.0)


def call_attention(module: Any, call: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Runs an attention module; hands out its pattern where the current run asks for it."""
    where: Where | None = module._headlens_where
    run = None if where is None else current(where.owner)
    if where is None or run is None or run.on_pattern is None or where.heads == 0:
        return call(module, *args, **kwargs)
    key = (where.site, where.layer(run))
    if not run.wants_pattern(key):
        return call(module, *args, **kwargs)
    with KernelSpy() as spy:
        output = call(module, *args, **kwargs)
    run.on_pattern(*key, where.hand_out(pattern_of(spy, output, where.heads, type(module).__name__)))
    return output


def pattern_of(spy: KernelSpy, output: Any, heads: int, name: str) -> Tensor:
    """The one pattern of an attention module that has just run, float32 ``[rows, heads, query, key]``.

    Raises:
        ModelError: the module showed no weights, or more than one set of them.
    """
    found = spy.patterns or _weights_in(output, heads) or [w for w in spy.softmaxes if w.dim() in (3, 4)]
    if len(found) != 1:
        raise ModelError(f"{name}: {len(found) or 'no'} attention patterns in one call, so none can be shown")
    pattern = found[0].detach().float()
    # One query of a GQA layer arrives as [rows, kv_heads, heads in the group, key]; some as [rows * heads, query, key].
    rows = pattern.shape[0] if pattern.dim() == 4 else pattern.shape[0] // heads
    return pattern.reshape(rows, heads, -1, pattern.shape[-1])


def _weights_in(output: Any, heads: int) -> list[Tensor]:
    """The last 4-d tensor with one slice a head: attention modules return (output, ..., weights)."""
    if not isinstance(output, tuple):
        return []
    tensors = [t for t in output[1:] if isinstance(t, torch.Tensor) and t.dim() == 4 and t.shape[1] == heads]
    return tensors[-1:]
