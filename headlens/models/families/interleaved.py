"""GPT-NeoX, BLOOM and Falcon: a fused projection ``query_key_value`` that is laid out head by head."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional

from headlens.errors import ModelError
from headlens.models.families.base import (
    Columns,
    Family,
    Kept,
    Place,
    SitePlaces,
    SiteSpec,
    StackSpec,
    interleaved,
    out_features,
    submodule,
)
from headlens.models.families.cut_modules import NoHeads, become, count_tokens

if TYPE_CHECKING:
    from torch import Tensor, nn
    from transformers import PreTrainedModel


class OwnSlopes:
    """Attention with ALiBi: takes the slopes of the heads that it has from the model's, which are those of all."""

    head_labels: tuple[int, ...]

    def forward(self, hidden_states: Tensor, *args: Any, alibi: Tensor, **kwargs: Any) -> Any:
        """``alibi`` is ``[rows * heads of the uncut model, 1, key]`` here."""
        own = own_slopes(alibi, hidden_states.shape[0], self.head_labels)
        return super().forward(hidden_states, *args, alibi=own.flatten(0, 1), **kwargs)  # type: ignore[misc]


def own_slopes(alibi: Tensor, rows: int, labels: tuple[int, ...]) -> Tensor:
    """Of ``[rows * heads, 1, key]`` (or ``[rows, heads, 1, key]``) those of some heads, ``[rows, labels, 1, key]``."""
    alibi = alibi.reshape(rows, -1, 1, alibi.shape[-1])
    return alibi.index_select(1, torch.tensor(labels, device=alibi.device))


class GPTNeoX(Family):
    """GPT-NeoX and Pythia: attention and MLP in parallel, rotary positions on a part of each head."""

    name = "GPT-NeoX"
    model_types = ("gpt_neox",)
    stacks = (StackSpec("self", "layers", (SiteSpec("self", "attention", "attention.dense", causal=True),)),)

    def qkv(self, place: Place) -> dict[str, Columns]:
        """See the base class."""
        return interleaved(submodule(place.attention, "query_key_value"), place.heads)


class BloomNoHeads(NoHeads):
    """BLOOM's attention adds the residual stream itself."""

    def forward(self, hidden_states: Tensor, residual: Tensor, **kwargs: Any) -> tuple[Any, ...]:
        """See BloomAttention."""
        module: Any = self
        count_tokens(self, hidden_states, kwargs)
        output = functional.dropout(self.output(hidden_states), module.hidden_dropout, module.training)
        return residual + output, None


class Bloom(Family):
    """BLOOM: ALiBi instead of positions, never sdpa."""

    name = "BLOOM"
    model_types = ("bloom",)
    stacks = (StackSpec("self", "h", (SiteSpec("self", "self_attention", "self_attention.dense", causal=True),)),)

    def sites(self, model: PreTrainedModel) -> tuple[SitePlaces, ...]:
        """See the base class."""
        if model.config.pretraining_tp > 1 and model.config.slow_but_exact:
            raise ModelError("BLOOM with slow_but_exact does not call its output projection: set slow_but_exact=False")
        return super().sites(model)

    def qkv(self, place: Place) -> dict[str, Columns]:
        """See the base class."""
        return interleaved(submodule(place.attention, "query_key_value"), place.heads)

    def without_heads(self, attention: nn.Module) -> type:  # noqa: ARG002
        """See the base class."""
        return BloomNoHeads

    def adapt(self, attention: nn.Module, kept: Kept) -> None:
        """See the base class."""
        attention.head_labels = kept.keep  # type: ignore[assignment]
        become(attention, OwnSlopes)


class OwnFalconHeads:
    """Falcon's attention with slopes for the heads that it has, and with groups of unequal size.

    In the groups of Falcon 40B the queries of a group lie side by side, then its key, then its value.
    """

    head_labels: tuple[int, ...]
    kv_head_of_head: tuple[int, ...] | None = None

    def forward(self, hidden_states: Tensor, alibi: Tensor | None, attention_mask: Tensor | None, **kwargs: Any) -> Any:
        """The model hands in slopes (and, with sdpa, a mask that holds them) for all heads of the uncut model."""
        if alibi is not None:
            rows, slopes = hidden_states.shape[0], alibi.numel() // alibi.shape[-1]
            if attention_mask is not None and attention_mask.dim() == 4 and attention_mask.shape[1] == slopes // rows:
                attention_mask = attention_mask.index_select(1, torch.tensor(self.head_labels, device=alibi.device))
            alibi = own_slopes(alibi, rows, self.head_labels)
        attend: Any = super().forward  # type: ignore[misc]
        return attend(hidden_states, alibi=alibi, attention_mask=attention_mask, **kwargs)

    def _split_heads(self, fused: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """``[rows, token, features]`` to query, key and value ``[rows, token, heads, d_head]``."""
        if self.kv_head_of_head is None:
            return super()._split_heads(fused)  # type: ignore[misc]
        module: Any = self
        query, key, value = slots(self.kv_head_of_head)
        parts = fused.unflatten(-1, (-1, module.head_dim))
        each = [[places[group] for group in self.kv_head_of_head] for places in (key, value)]
        found = [parts.index_select(2, torch.tensor(index, device=fused.device)) for index in (query, *each)]
        return found[0], found[1], found[2]


def slots(reads: tuple[int, ...]) -> tuple[list[int], list[int], list[int]]:
    """Where in Falcon's fused projection, counted in heads, each query lies, and the key and value of each group."""
    query, key, value = [], [], []
    for head, group in enumerate(reads):
        query.append(head + 2 * group)
        if head + 1 == len(reads) or reads[head + 1] != group:
            key.append(query[-1] + 1)
            value.append(query[-1] + 2)
    return query, key, value


class Falcon(Family):
    """Falcon: one KV head (7B), KV groups (40B and later) or one KV head for each query head (RW)."""

    name = "Falcon"
    model_types = ("falcon",)
    stacks = (StackSpec("self", "h", (SiteSpec("self", "self_attention", "self_attention.dense", causal=True),)),)

    def kv_heads(self, attention: nn.Module, model: PreTrainedModel, heads: int) -> int:  # noqa: ARG002
        """See the base class."""
        return int(attention.num_kv_heads)  # type: ignore[arg-type]

    def qkv(self, place: Place) -> dict[str, Columns]:
        """Group by group: the queries of a group, then its key, then its value; one group for MQA."""
        module = submodule(place.attention, "query_key_value")
        index = torch.arange(out_features(module)).reshape(-1, place.d_head)
        return {part: Columns(module, index[rows]) for part, rows in zip("qkv", slots(place.reads), strict=True)}

    def adapt(self, attention: Any, kept: Kept) -> None:
        """See the base class."""
        if kept.even and not attention.config.alibi:
            return
        attention.head_labels = kept.keep
        attention.kv_head_of_head = None if kept.even else kept.reads
        become(attention, OwnFalconHeads)
