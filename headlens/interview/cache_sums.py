"""Sums about the key/value cache: what a token costs, what sharing saves, what a head that goes saves."""

from __future__ import annotations

from collections.abc import Mapping

from headlens.interview.amounts import Live, NotHereError, number
from headlens.interview.shape import LayerNumbers, Shape


def kv_bytes(shape: Shape, options: Mapping[str, float]) -> Live:
    size = int(options["bytes"])
    values = sum(layer.cached for layer in _caching(shape))
    return Live(values * size, "bytes", f"{_cache_sum(shape)} × {size} bytes = {number(values * size)} bytes", shape)


def _cache_sum(shape: Shape) -> str:
    """The number of cached values a token, written out."""
    layers = _caching(shape)
    first, values = layers[0], sum(layer.cached for layer in layers)
    alike = all((layer.cached, layer.kv_heads) == (first.cached, first.kv_heads) for layer in layers)
    if not alike or not first.kv_heads:
        return f"{number(values)} values in {len(layers)} layers"
    if shape.latent:
        return f"{len(layers)} layers × {first.cached} values of the shared latent"
    width = first.cached // (2 * first.kv_heads)
    if 2 * first.kv_heads * width != first.cached:
        return f"{len(layers)} layers × {first.cached} values"
    return f"2 (keys and values) × {len(layers)} layers × {first.kv_heads} KV heads × {width}"


def _caching(shape: Shape) -> tuple[LayerNumbers, ...]:
    if not shape.caching:
        raise NotHereError(f"{shape.name} generates nothing, so it keeps no key/value cache")
    return shape.caching


def kv_context(shape: Shape, options: Mapping[str, float]) -> Live:
    each = kv_bytes(shape, options).value
    tokens, batch = int(options["tokens"]), int(options["batch"])
    total = each * tokens * batch
    rows = f" × {batch} sequences" if batch > 1 else ""
    return Live(
        total / 2**20, "MiB", f"{number(each)} bytes × {tokens:,} tokens{rows} / 2^20 = {total / 2**20:,.4g} MiB", shape
    )


def kv_if_every_head(shape: Shape, options: Mapping[str, float]) -> Live:
    """The cache if every query head had keys and values of its own, as wide as now."""
    size, layers = int(options["bytes"]), _one_per_head(shape)
    values = sum(layer.cached * layer.heads // layer.kv_heads for layer in layers)
    first = layers[0]
    text = f"{number(kv_bytes(shape, options).value)} bytes × {first.heads} query heads / {first.kv_heads} KV heads"
    return Live(values * size, "bytes", f"{text} = {number(values * size)} bytes", shape)


def _one_per_head(shape: Shape) -> tuple[LayerNumbers, ...]:
    """Caching layers whose cache is made of KV heads."""
    layers = _caching(shape)
    if shape.latent:
        raise NotHereError(f"{shape.name} caches a latent that all heads share, not KV heads")
    layers = tuple(layer for layer in layers if layer.kv_heads)
    if not layers:
        raise NotHereError(f"{shape.name} has no KV heads left")
    return layers


def kv_saved_by_groups(shape: Shape, options: Mapping[str, float]) -> Live:
    size, groups, layers = int(options["bytes"]), int(options["groups"]), _one_per_head(shape)
    saved = sum(layer.cached // layer.kv_heads * min(groups, layer.kv_heads) for layer in layers) * size
    each = layers[0].cached // layers[0].kv_heads
    text = f"{len(layers)} layers × {_heads(min(groups, layers[0].kv_heads))} × {each} keys and values × {size} bytes"
    return Live(saved, "bytes", f"{text} = {number(saved)} bytes", shape)


def _heads(count: int) -> str:
    return f"{count} KV head{'s' if count > 1 else ''}"


def kv_saved_by_query_head(shape: Shape, options: Mapping[str, float]) -> Live:
    layer = _one_per_head(shape)[0] if not shape.latent else shape.first
    size = int(options["bytes"])
    if shape.latent or layer.kv_heads < layer.heads:
        why = "the latent serves all heads" if shape.latent else "its keys and values serve the rest of its group"
        return Live(0, "bytes", f"{why}, so they stay: 0 bytes", shape)
    saved = layer.cached // layer.kv_heads * size
    return Live(
        saved, "bytes", f"{layer.cached // layer.kv_heads} keys and values × {size} bytes = {saved} bytes", shape
    )


def queries_per_kv(shape: Shape, _: Mapping[str, float]) -> Live:
    layer = _one_per_head(shape)[0]
    ratio = layer.heads / layer.kv_heads
    return Live(ratio, "query heads", f"{layer.heads} query heads / {layer.kv_heads} KV heads = {number(ratio)}", shape)


def pattern_entries(shape: Shape, options: Mapping[str, float]) -> Live:
    tokens, layers = int(options["tokens"]), shape.caching or shape.layers
    heads = sum(layer.heads for layer in layers)
    total = heads * tokens**2
    return Live(total, "weights", f"{heads} heads × {tokens:,} queries × {tokens:,} keys = {total:,}", shape)


def tokens_like_weights(shape: Shape, options: Mapping[str, float]) -> Live:
    each, size = kv_bytes(shape, options).value, int(options["bytes"])
    tokens = shape.parameters * size / each
    text = f"{shape.parameters:,} parameters × {size} bytes / {number(each)} bytes a token"
    return Live(round(tokens), "tokens", f"{text} = {tokens:,.0f} tokens", shape)
