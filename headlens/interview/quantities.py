"""The registry of numbers about heads that follow from a model's shape. Nothing is run, so each comes at once."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from headlens.interview import cache_sums as cache
from headlens.interview import head_sums as heads
from headlens.interview.amounts import Live, NotHereError, Quantity, number
from headlens.interview.shape import GPT2_SMALL, Shape

__all__ = ["QUANTITIES", "Live", "NotHereError", "Quantity", "live", "live_or_reference", "number"]


def live(name: str, shape: Shape, options: Mapping[str, float] | None = None) -> Live:
    """The quantity ``name`` of a model.

    Raises:
        NotHereError: this model has no such quantity.
    """
    quantity = QUANTITIES[name]
    return quantity.compute(shape, {**quantity.options, **(options or {})})


def live_or_reference(name: str, shape: Shape | None, options: Mapping[str, float] | None = None) -> Live:
    """The quantity of the chosen model, or of GPT-2 small where the model has none (or there is no model)."""
    if shape is not None:
        try:
            return live(name, shape, options)
        except NotHereError:
            pass
    return live(name, GPT2_SMALL, options)


def _registry() -> Mapping[str, Quantity]:
    two: Mapping[str, float] = {"bytes": 2}
    return MappingProxyType(
        {
            "kv-bytes-per-token": Quantity("Bytes of cache a token", cache.kv_bytes, two),
            "kv-mib-for-context": Quantity("MiB of cache", cache.kv_context, {**two, "tokens": 4096, "batch": 1}),
            "kv-bytes-if-every-head": Quantity("Bytes a token without sharing", cache.kv_if_every_head, two),
            "kv-saved-by-groups": Quantity(
                "Saved a token by one KV head less a layer", cache.kv_saved_by_groups, {**two, "groups": 1}
            ),
            "kv-saved-by-query-head": Quantity(
                "Saved a token by one query head less", cache.kv_saved_by_query_head, two
            ),
            "queries-per-kv": Quantity("Query heads to a KV head", cache.queries_per_kv, {}),
            "head-parameters": Quantity("Parameters that go with one head", heads.head_parameters, {}),
            "group-parameters": Quantity("Parameters of one KV group", heads.group_parameters, {}),
            "attention-share": Quantity("Attention's share of the model", heads.attention_share, {"part": 1}),
            "rank-bound": Quantity("Largest rank of a head's map", heads.rank_bound, {}),
            "write-share": Quantity("Share of directions a head can write to", heads.write_share, {}),
            "leave-one-out-passes": Quantity("Forward passes of an exact sweep", heads.leave_one_out, {}),
            "pairs": Quantity("Pairs of heads", heads.pairs, {}),
            "pattern-entries": Quantity("Attention weights in one pass", cache.pattern_entries, {"tokens": 128}),
            "weight-megabytes": Quantity("MB of weights", heads.weight_bytes, two),
            "tokens-like-weights": Quantity("Cached tokens as heavy as the weights", cache.tokens_like_weights, two),
        }
    )


QUANTITIES: Mapping[str, Quantity] = _registry()
