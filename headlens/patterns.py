"""Attention patterns for one context, without changing what the model computes.

Models keep their default attention. Where that is ``sdpa`` (which gives no weights), the model is switched *once*,
before anyone shares it, to an attention function of our own that calls the same sdpa kernel on the same arguments; only
when the current run asks for a layer's pattern does it also compute the weights that the kernel applied. The model's
output still comes from sdpa, so asking for patterns changes no bit of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from headlens.run import current

if TYPE_CHECKING:
    from torch import Tensor, nn
    from transformers import PreTrainedModel

    from headlens.instrument import Where

IMPLEMENTATION = "headlens_sdpa"


def attention_forward(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **kwargs: Any
) -> tuple[Tensor, Tensor | None]:
    """sdpa, which also hands out the pattern where the current run asks for it."""
    where: Where | None = getattr(module, "_headlens_where", None)
    run = None if where is None else current(where.owner)
    if run is not None and where is not None and run.on_pattern is not None:
        place = (where.site, where.layer(run))
        if run.wants_pattern(place):
            run.on_pattern(*place, sdpa_pattern(module, query, key, attention_mask, **kwargs))
    return sdpa_attention_forward(module, query, key, value, attention_mask, **kwargs)


# The mask function must be registered under the same name: without it transformers makes no causal mask, silently.
AttentionInterface.register(IMPLEMENTATION, attention_forward)
AttentionMaskInterface.register(IMPLEMENTATION, sdpa_mask)


def use_own_attention(model: PreTrainedModel) -> None:
    """Switches a freshly loaded model from sdpa to our function; models with another default keep theirs.

    To be called before the model is shared: changing the implementation under a running forward gives wrong results.
    """
    if model.config._attn_implementation == "sdpa":
        model.set_attn_implementation(IMPLEMENTATION)


@torch.no_grad()
def sdpa_pattern(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    is_causal: bool | None = None,
    position_bias: Tensor | None = None,
    **_: Any,
) -> Tensor:
    """The weights that sdpa applies to the values, float32 ``[rows, heads, query, key]``.

    ``softmax(scaling * query @ key^T + position_bias + mask)`` with the same defaults as sdpa: no mask means a causal
    one where the module is causal, a boolean mask says what is visible, a float mask is added.
    """
    query, key = query.float(), key.float()
    key = key.repeat_interleave(query.shape[1] // key.shape[1], dim=1)  # GQA: one key head serves several queries
    scores = query @ key.transpose(-1, -2) * (query.shape[-1] ** -0.5 if scaling is None else scaling)
    if position_bias is not None:
        scores = scores + position_bias
    lowest = torch.finfo(scores.dtype).min
    if attention_mask is None:
        queries, keys = scores.shape[-2:]
        if queries > 1 and (getattr(module, "is_causal", True) if is_causal is None else is_causal):
            visible = torch.ones(queries, keys, dtype=torch.bool, device=scores.device).tril()
            scores = scores.masked_fill(~visible, lowest)
    elif attention_mask.dtype == torch.bool:
        scores = scores.masked_fill(~attention_mask, lowest)
    else:
        scores = scores + attention_mask
    return scores.softmax(-1)


def install_patterns(attention: nn.Module, where: Where) -> None:
    """Marks an attention module with its address; modules that return weights are read by a forward hook."""
    attention._headlens_where = where  # type: ignore[assignment]
    attention.register_forward_hook(_from_output(where))


def _from_output(where: Where) -> Callable[..., None]:
    """Forward hook for attention modules that compute their weights anyway (eager families)."""

    def hook(module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        run = current(where.owner)
        if run is None or run.on_pattern is None or _uses_interface(module):
            return
        place = (where.site, where.layer(run))
        if run.wants_pattern(place):
            run.on_pattern(*place, _weights_in(output, where.heads).detach().float())

    return hook


def _uses_interface(module: nn.Module) -> bool:
    return getattr(getattr(module, "config", None), "_attn_implementation", None) == IMPLEMENTATION


def _weights_in(output: Any, heads: int) -> Tensor:
    """The last 4-d tensor with one slice a head: attention modules return (output, ..., weights)."""
    tensors = [t for t in output[1:] if isinstance(t, torch.Tensor) and t.dim() == 4 and t.shape[1] == heads]
    if not tensors:
        raise LookupError("the attention module returned no weights")
    return tensors[-1]
