"""T5, mT5 and UMT5: encoder and decoder with relative position bias; no bias terms, unscaled dot products."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from headlens.models.families.base import Family, Kept, Place, SitePlaces, SiteSpec, Slice, StackSpec
from headlens.models.families.cut_modules import NoHeads, become, count_tokens

if TYPE_CHECKING:
    from torch import Tensor, nn

_TABLE = "relative_attention_bias"


class OwnRows:
    """T5 attention whose layers have different heads: each takes its own rows of the position bias.

    T5 and mT5 compute the bias once, in the first layer of a stack, from a table with one column a head, and hand it on
    from layer to layer. The table keeps a column for every head that some layer of the stack still has.
    """

    bias_rows: tuple[int, ...]

    def forward(
        self,
        hidden_states: Tensor,
        mask: Tensor | None = None,
        key_value_states: Tensor | None = None,
        position_bias: Tensor | None = None,
        cache: Any = None,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """See T5Attention; what is handed on is the bias of all heads, ``[1, columns of the table, query, key]``."""
        attend: Any = super().forward  # type: ignore[misc]
        if key_value_states is not None:  # cross-attention has no position bias, only zeros for its own heads
            output, _, weights = attend(hidden_states, mask, key_value_states, None, cache, **kwargs)
            return output, None, weights
        seen = tokens_seen(self, cache)
        rows = None if position_bias is None else _rows(position_bias, self.bias_rows)
        output, own, weights = attend(hidden_states, mask, None, rows, cache, **kwargs)
        if position_bias is None:
            whole: Any = super().compute_bias  # type: ignore[misc]
            position_bias = whole(hidden_states.shape[1], own.shape[-1], own.device, seen)
        return output, position_bias, weights

    def compute_bias(self, *args: Any, **kwargs: Any) -> Tensor:
        """The rows of this layer's heads, ``[1, heads, query, key]``."""
        return _rows(super().compute_bias(*args, **kwargs), self.bias_rows)  # type: ignore[misc]


class T5NoHeads(NoHeads):
    """T5 attention without heads; in the first layer of a stack it still computes the others' position bias."""

    def forward(
        self,
        hidden_states: Tensor,
        mask: Tensor | None = None,  # noqa: ARG002 - the class's arguments
        key_value_states: Tensor | None = None,
        position_bias: Tensor | None = None,
        cache: Any = None,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """See :class:`OwnRows`."""
        seen = tokens_seen(self, cache)
        keys = count_tokens(self, hidden_states, {**kwargs, "cache": cache, "key_value_states": key_value_states})
        module: Any = self
        if key_value_states is None and position_bias is None and getattr(self, _TABLE, None) is not None:
            position_bias = module.compute_bias(hidden_states.shape[1], keys, hidden_states.device, seen)
        return self.output(hidden_states), position_bias, None


def tokens_seen(attention: Any, cache: Any) -> Any:
    """Tokens in the cache before this call."""
    seen = 0 if cache is None else cache.get_seq_length(attention.layer_idx)
    return seen.clone() if isinstance(seen, torch.Tensor) else seen  # a static cache would count on in it


def _rows(bias: Tensor, rows: tuple[int, ...]) -> Tensor:
    return bias.index_select(1, torch.tensor(rows, device=bias.device))


class T5(Family):
    """T5, mT5, FLAN-T5, UL2 (T5's classes) and UMT5; three sites. UMT5 has a table of position biases in each layer."""

    name = "T5"
    model_types = ("t5", "mt5", "umt5")
    stacks = (
        StackSpec("enc", "encoder.block", (SiteSpec("enc", "layer.0.SelfAttention", "layer.0.SelfAttention.o"),)),
        StackSpec(
            "dec",
            "decoder.block",
            (
                SiteSpec("dec", "layer.0.SelfAttention", "layer.0.SelfAttention.o", causal=True),
                SiteSpec("cross", "layer.1.EncDecAttention", "layer.1.EncDecAttention.o"),
            ),
        ),
    )

    def slices(self, place: Place, kept: Kept) -> list[Slice]:
        """See the base class."""
        found = super().slices(place, kept)
        table = getattr(place.attention, _TABLE, None)
        if table is not None and not _hands_on(place.attention):
            found.append(Slice(table, "weight", 1, tuple(kept.positions)))
        return found

    def take_out(self, place: Place, kept: Kept) -> None:
        """See the base class."""
        attention: Any = place.attention
        table = getattr(attention, _TABLE, None) if _hands_on(attention) else None
        super().take_out(place, kept)
        if table is not None:
            setattr(attention, _TABLE, table)  # it is the other layers' too

    def without_heads(self, attention: nn.Module) -> type:
        """See the base class."""
        return T5NoHeads if _hands_on(attention) else NoHeads

    def stack_slices(self, sites: Sequence[SitePlaces], kept: Mapping[str, Sequence[Kept]]) -> list[Slice]:
        """Columns of heads that no layer of the stack has any more go from its table."""
        found = []
        for site in sites:
            first = site.layers[0].attention
            table = getattr(first, _TABLE, None)
            if table is not None and _hands_on(first):
                there, stay = _columns(kept[site.name])
                found.append(Slice(table, "weight", 1, tuple(there.index(head) for head in stay)))
        return found

    def adapt_stacks(self, sites: Sequence[SitePlaces], kept: Mapping[str, Sequence[Kept]]) -> None:
        """Has each layer take its own rows where the layers of a stack differ."""
        for site in sites:
            layers = kept[site.name]
            _, columns = _columns(layers)
            if not _hands_on(site.layers[0].attention) or all(layer.keep == columns for layer in layers):
                continue
            for place, layer in zip(site.layers, layers, strict=True):
                if layer.keep:
                    place.attention.bias_rows = tuple(map(columns.index, layer.keep))  # type: ignore[assignment]
                    become(place.attention, OwnRows)
            if not columns and hasattr(site.layers[0].attention, _TABLE):
                setattr(site.layers[0].attention, _TABLE, None)


def _hands_on(attention: nn.Module) -> bool:
    """Whether layers get the position bias of the layer before (T5, mT5)."""
    return "position_bias" in inspect.signature(attention.forward).parameters


def _columns(layers: Sequence[Kept]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Labels of the heads that some layer has, before and after: the columns of the table."""
    before, after = (sorted({h for layer in layers for h in labels(layer)}) for labels in (_heads, _keep))
    return tuple(before), tuple(after)


def _heads(kept: Kept) -> tuple[int, ...]:
    return kept.heads


def _keep(kept: Kept) -> tuple[int, ...]:
    return kept.keep
