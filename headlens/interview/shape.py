"""The numbers of a model that arithmetic about heads needs: read off an opened model, or a published configuration.

Nothing is run; weights are counted, not looked at.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import nn

    from headlens.lens import Lens
    from headlens.models.families import Place
    from headlens.models.families.base import Columns


@dataclass(frozen=True)
class LayerNumbers:
    """One attention layer.

    Attributes:
        heads, kv_heads, d_head: query heads, key/value heads, width of one head's ``z``.
        cached: numbers that a KV cache keeps for one token that is generated; 0 where nothing is kept for it.
        q, o: parameters of one query head's slices of W_Q (with its bias) and W_O.
        kv: parameters of one KV head's slices of W_K and W_V (with their biases).
        all: parameters of the whole attention, biases and shared parts included; those of an earlier layer count there.
        inside: how a head is made, in words, where its widths alone do not say it (latent attention).
    """

    heads: int
    kv_heads: int
    d_head: int
    cached: int
    q: int
    o: int
    kv: int
    all: int
    inside: str = ""


@dataclass(frozen=True)
class Shape:
    """A model in numbers.

    Attributes:
        name: for people.
        layers: attention layers of all sites.
        d_model: width of the residual stream.
        parameters: of the whole model.
        latent: whether the cache holds a latent that all heads share (MLA), so that no KV head can be dropped.
        known: whether the parameters of single heads are known (not in models of a family without an adapter).
    """

    name: str
    layers: tuple[LayerNumbers, ...]
    d_model: int
    parameters: int
    latent: bool = False
    known: bool = True

    @property
    def heads(self) -> int:
        """Query heads in all layers."""
        return sum(layer.heads for layer in self.layers)

    @property
    def caching(self) -> tuple[LayerNumbers, ...]:
        """Layers that keep something for each generated token."""
        return tuple(layer for layer in self.layers if layer.cached)

    @property
    def first(self) -> LayerNumbers:
        """The first layer that has heads (of those that cache, where there are any)."""
        return next((layer for layer in (*self.caching, *self.layers) if layer.heads), self.layers[0])

    def facts(self) -> Mapping[str, str]:
        """What questions may name in their text."""
        first = self.first
        return MappingProxyType(
            {
                "model": self.name,
                "layers": str(len(self.caching) or len(self.layers)),
                "heads": str(first.heads),
                "kv_heads": str(first.kv_heads),
                "d_head": str(first.d_head),
                "d_model": f"{self.d_model:,}",
                "parameters": f"{self.parameters:,}",
                "all_heads": str(self.heads),
                "all_layers": str(len(self.layers)),
                "head": self._one_head(),
                "attention": self._attention(),
                "cache": self._cache(),
            }
        )

    def _one_head(self) -> str:
        """The first layer's heads, in words: enough to work out how many parameters one of them has."""
        first = self.first
        if self.latent:
            return f"{first.heads} heads: {first.inside}"
        return f"{first.heads} query and {first.kv_heads} key/value heads of width {first.d_head}"

    def _attention(self) -> str:
        """All heads, in words: enough to work out how many parameters attention has."""
        first, groups = self.first, sum(layer.kv_heads for layer in self.layers)
        if self.latent:
            return f"{self.heads} heads in {len(self.layers)} layers: {first.inside}"
        text = f"{self.heads} query and {groups} key/value heads of width {first.d_head} in {len(self.layers)} layers"
        shared = any(layer.heads and not layer.all for layer in self.layers)
        return f"{text} that share one set of weights" if shared else text

    def _cache(self) -> str:
        """What is kept for each token that is generated, in words: enough to work out its size."""
        layers = [layer for layer in self.caching if layer.heads]
        if not layers:
            return "no cache"
        first, places = layers[0], f"{len(layers)} layer{'s' if len(layers) > 1 else ''}"
        if self.latent:
            return f"{places} that cache, one latent of {first.cached} numbers a layer for all heads"
        each = first.cached // first.kv_heads
        width = f"of width {first.d_head}" if each == 2 * first.d_head else f"of {each} numbers for key and value"
        if all(layer.kv_heads == first.kv_heads for layer in layers):
            return f"{places} that cache, {first.kv_heads} key/value heads {width} in each"
        return f"{places} that cache, {sum(layer.kv_heads for layer in layers)} key/value heads {width} in all"


def published(
    name: str, *, layers: int, heads: int, kv_heads: int, d_head: int, d_model: int, parameters: int, bias: bool
) -> Shape:
    """A decoder from its published configuration."""
    b = int(bias)
    q, o, kv = d_head * (d_model + b), d_head * d_model, 2 * d_head * (d_model + b)
    whole = heads * (q + o) + kv_heads * kv + b * d_model
    layer = LayerNumbers(heads, kv_heads, d_head, 2 * kv_heads * d_head, q, o, kv, whole)
    return Shape(name, (layer,) * layers, d_model, parameters)


GPT2_SMALL = published(
    "GPT-2 small", layers=12, heads=12, kv_heads=12, d_head=64, d_model=768, parameters=124_439_808, bias=True
)
"""Stands in where the chosen model has no such quantity (an encoder has no KV cache)."""


def shape_of(lens: Lens) -> Shape:
    """The numbers of an opened model."""
    from headlens.models.families.base import out_features

    counted: set[int] = set()
    layers, known, latent = [], True, False
    for site in lens.sites:
        for place in site.layers:
            columns = lens.adapter.qkv(place) if place.heads else {}  # a layer that was cut out has no matrices
            known = known and (not place.heads or {"q", "k", "v"} <= set(columns))
            cached = lens.adapter.cached_values(place) if place.causal and site.name in ("self", "dec", "text") else 0
            each = sum(columns[part].index.shape[1] for part in ("k", "v") if part in columns)
            shared = 0 < cached < place.kv_heads * each
            latent = latent or shared
            part = {name: _slice(found.module, found.index.shape[1]) for name, found in columns.items()}
            layers.append(
                LayerNumbers(
                    heads=place.heads,
                    kv_heads=place.kv_heads,
                    d_head=place.d_head,
                    cached=cached,
                    q=part.get("q", 0),
                    o=place.d_head * out_features(place.out_proj),
                    kv=part.get("k", 0) + part.get("v", 0),
                    all=_parameters(place, counted),
                    inside=_inside(columns, cached, place.d_head) if shared else "",
                )
            )
    d_model = out_features(lens.sites[0].layers[0].out_proj)
    return Shape(lens.title, tuple(layers), d_model, lens.parameters, latent, known)


def _slice(projection: nn.Module, width: int) -> int:
    """Parameters of ``width`` output features of a projection."""
    from headlens.models.families.base import in_out

    return width * (in_out(projection).shape[0] + (getattr(projection, "bias", None) is not None))


def _inside(columns: Mapping[str, Columns], cached: int, width: int) -> str:
    """The matrices of a head whose keys and values come from a latent."""
    from headlens.models.families.base import in_out

    query, key, value = (columns[part] for part in "qkv")
    sizes = [found.index.shape[1] for found in (query, key, value)]
    reads, latent = (in_out(found.module).shape[0] for found in (query, key))
    return (
        f"queries of width {sizes[0]} from {reads} numbers, keys and values {sizes[1]} + {sizes[2]} wide from a latent "
        f"of {latent} (one projection to {cached} numbers for all heads), outputs {width} wide"
    )


def _parameters(place: Place, counted: set[int]) -> int:
    """Parameters of the attention and its output projection that were not counted before."""
    found = 0
    for module in (place.attention, place.out_proj):
        for parameter in module.parameters():
            if id(parameter) not in counted:
                counted.add(id(parameter))
                found += parameter.numel()
    return found
