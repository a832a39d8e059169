"""Sums about weights and counts of heads: parameters, ranks, passes."""

from __future__ import annotations

from collections.abc import Mapping

from headlens.interview.amounts import Live, NotHereError, number
from headlens.interview.shape import Shape


def head_parameters(shape: Shape, _: Mapping[str, float]) -> Live:
    layer = _known(shape).first
    if layer.kv_heads < layer.heads:
        text = f"W_Q {number(layer.q)} + W_O {number(layer.o)} (keys and values are shared, so they stay)"
        return Live(layer.q + layer.o, "parameters", f"{text} = {number(layer.q + layer.o)}", shape)
    total = layer.q + layer.o + layer.kv
    own = "its slices of the latent's up-projection" if shape.latent else "W_K and W_V"
    text = f"W_Q {number(layer.q)} + {own} {number(layer.kv)} + W_O {number(layer.o)}"
    return Live(total, "parameters", f"{text} = {number(total)}", shape)


def group_parameters(shape: Shape, _: Mapping[str, float]) -> Live:
    layer = _known(shape).first
    if shape.latent or layer.heads % layer.kv_heads:
        raise NotHereError(f"{shape.name} has no key/value groups of equal size")
    members = layer.heads // layer.kv_heads
    total = members * (layer.q + layer.o) + layer.kv
    text = f"{members} × (W_Q {number(layer.q)} + W_O {number(layer.o)}) + W_K and W_V {number(layer.kv)}"
    return Live(total, "parameters", f"{text} = {number(total)}", shape)


def _known(shape: Shape) -> Shape:
    if not shape.known:
        raise NotHereError(f"where {shape.name} keeps the weights of single heads is not known")
    return shape


def attention_share(shape: Shape, options: Mapping[str, float]) -> Live:
    part, of = sum(layer.all for layer in shape.layers), options["part"]
    share = 100 * of * part / shape.parameters
    half = f" × {of:g}" if of != 1 else ""
    return Live(
        share, "%", f"{number(part)} attention parameters{half} / {number(shape.parameters)} = {share:.3g} %", shape
    )


def rank_bound(shape: Shape, _: Mapping[str, float]) -> Live:
    width = shape.first.d_head
    return Live(width, "", f"W_V W_O passes through {width} numbers, so its rank is at most {width}", shape)


def write_share(shape: Shape, _: Mapping[str, float]) -> Live:
    width = shape.first.d_head
    share = 100 * width / shape.d_model
    return Live(share, "%", f"{width} directions / {shape.d_model} in the residual stream = {share:.3g} %", shape)


def leave_one_out(shape: Shape, _: Mapping[str, float]) -> Live:
    return Live(shape.heads + 1, "passes", f"{shape.heads} heads + 1 with all on = {shape.heads + 1:,}", shape)


def pairs(shape: Shape, _: Mapping[str, float]) -> Live:
    pairs = shape.heads * (shape.heads - 1) // 2
    return Live(pairs, "pairs", f"{shape.heads} × {shape.heads - 1} / 2 = {pairs:,}", shape)


def weight_bytes(shape: Shape, options: Mapping[str, float]) -> Live:
    size = int(options["bytes"])
    total = shape.parameters * size / 1e6
    return Live(total, "MB", f"{shape.parameters:,} parameters × {size} bytes / 10^6 = {total:,.4g} MB", shape)
