"""Attention patterns for a prompt: who looks at whom, in every head."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from headlens.data.encode import TOKENIZER_LOCK
from headlens.errors import DataError
from headlens.run import Edit, Run
from headlens.switches import off_mask

if TYPE_CHECKING:
    from torch import Tensor

    from headlens.heads import HeadSet
    from headlens.lens import Lens

MAX_TOKENS = 2048
"""Longest prompt that is looked at; patterns grow with its square."""


@dataclass(frozen=True)
class Patterns:
    """Post-softmax attention of every head for one input.

    Attributes:
        pattern: by site, float32 ``[layer, head, query, key]``; rows sum to 1. Heads that are gone are NaN.
        query_ids, key_ids: token ids by site (empty for pictures).
        pattern_layers: the layers that were computed, by site.
    """

    pattern: Mapping[str, np.ndarray]
    query_ids: Mapping[str, list[int]]
    key_ids: Mapping[str, list[int]]
    pattern_layers: Mapping[str, tuple[int, ...]]


def prompt_inputs(
    lens: Lens, prompt: str, target: str | None = None, max_tokens: int = MAX_TOKENS
) -> dict[str, Tensor]:
    """Model inputs for one prompt (and, for encoder-decoder models, a target), each ``[1, ...]``.

    Raises:
        DataError: an empty prompt, one over ``max_tokens``, or a missing target.
    """
    if not prompt.strip():
        raise DataError("the prompt is empty; write some text")
    if lens.tokenizer is None:
        raise DataError(f"{lens.name} ({lens.task}) takes no text prompt")
    limit = min(max_tokens, lens.max_positions or max_tokens)
    with TOKENIZER_LOCK:
        ids = lens.tokenizer(prompt)["input_ids"]
    _check(lens, "the prompt", ids, limit)
    inputs = {"input_ids": torch.tensor([ids]), "attention_mask": torch.ones(1, len(ids), dtype=torch.long)}
    if lens.task == "seq2seq":
        if not target or not target.strip():
            raise DataError(f"{lens.name} is an encoder-decoder model: give a target text too")
        with TOKENIZER_LOCK:
            target_ids = lens.tokenizer(text_target=target)["input_ids"]
        _check(lens, "the target", target_ids, limit)
        inputs["decoder_input_ids"] = lens.shift_right(torch.tensor(target_ids))[None]
        inputs["decoder_attention_mask"] = torch.ones_like(inputs["decoder_input_ids"])
    return {name: value.to(lens.device) for name, value in inputs.items()}


def _check(lens: Lens, what: str, ids: list[int], limit: int) -> None:
    if not ids:
        raise DataError(f"{what} has no tokens: the tokenizer keeps nothing of it")
    if len(ids) > limit:
        raise DataError(f"{what} has {len(ids)} tokens; at most {limit} fit here: shorten it")
    if max(ids) >= lens.vocabulary:
        raise DataError(f"{what} has the token id {max(ids)}, outside the model's vocabulary; wrong tokenizer?")


def patterns(
    lens: Lens,
    inputs: Mapping[str, Tensor],
    *,
    layers: Mapping[str, tuple[int, ...]] | None = None,
    off: HeadSet | None = None,
) -> Patterns:
    """Patterns of the first row of ``inputs``, with the heads in ``off`` zero-ablated.

    Args:
        lens: the model.
        inputs: from :func:`prompt_inputs`, or pixel values.
        layers: by site, which layers to keep; None keeps all.
        off: heads that are off (their own pattern is still computed and shown).
    """
    wanted = None if layers is None else frozenset((site, layer) for site, found in layers.items() for layer in found)
    seen: dict[tuple[str, int], np.ndarray] = {}

    def keep(site: str, layer: int, pattern: Tensor) -> None:
        seen[site, layer] = pattern[0].cpu().numpy()

    masks = {} if off is None else off_mask(lens.topology, off)
    edits = {key: Edit(off=mask.to(lens.device)) for key, mask in masks.items()}
    with torch.inference_mode():
        lens.forward(inputs, Run(edits=edits, on_pattern=keep, pattern_of=wanted))
    found, kept = {}, {}
    for site in lens.topology.sites:
        chosen = tuple(layer for layer in range(len(site.layers)) if wanted is None or (site.name, layer) in wanted)
        sizes = [pattern.shape[-2:] for (name, _), pattern in seen.items() if name == site.name]
        if not sizes:
            continue
        array = np.full((len(chosen), site.width(), *sizes[0]), np.nan, dtype=np.float32)
        for position, layer in enumerate(chosen):
            if site.layers[layer].heads:
                array[position, list(site.layers[layer].heads)] = seen[site.name, layer]
        found[site.name], kept[site.name] = array, chosen
    sides = {name: inputs[name][0].tolist() for name in ("input_ids", "decoder_input_ids") if name in inputs}
    encoder, decoder = sides.get("input_ids", []), sides.get("decoder_input_ids", [])
    return Patterns(
        found,
        {site: decoder if site in ("dec", "cross") else encoder for site in found},
        {site: decoder if site == "dec" else encoder for site in found},
        kept,
    )
