"""The examples that claims are checked on: few enough to take minutes, more for small models."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from headlens.claims.context import Context

if TYPE_CHECKING:
    from headlens.data.dataset import Split
    from headlens.data.encode import Encoded, EncodedData
    from headlens.lens import Lens

LEAST_TOKENS, MOST_TOKENS, WORK = 300, 4000, 3e10
"""Input tokens of each set unless asked otherwise: 300 (the default model reads them in half a second), more for small
models: as many as give ``WORK`` parameters times tokens, up to 4,000 of text."""
LEAST_PICTURES = 24
"""Pictures of each set at least: each is one prediction, and many tokens."""
MAX_TOKENS = 48
"""Where examples are cut unless asked otherwise: several short ones give better error bars than two long ones."""


def some(data: EncodedData, tokens: int, lens: Lens) -> EncodedData:
    """The first examples of up to ``tokens`` tokens in all, at least two texts or ``LEAST_PICTURES`` pictures."""
    chosen, used = [], 0
    for example in data.examples:
        used += tokens_of(example, lens)
        if used > tokens and len(chosen) >= (LEAST_PICTURES if "pixel_values" in example.inputs else 2):
            break
        chosen.append(example)
    return replace(data, examples=tuple(chosen))


def tokens_for(lens: Lens) -> int:
    """How many tokens of each set, by the size of the model."""
    found = int(max(LEAST_TOKENS, WORK / lens.parameters))
    return found if lens.task == "image-classification" else min(MOST_TOKENS, found)


def tokens_of(example: Encoded, lens: Lens) -> int:
    """What the model reads of an example: its tokens, or the patches of a picture and one more."""
    pixels, side = example.inputs.get("pixel_values"), getattr(lens.model.config, "patch_size", None)
    if pixels is None or not isinstance(side, int):
        return example.length
    return (pixels.shape[-2] // side) * (pixels.shape[-1] // side) + 1


def make_context(
    lens: Lens,
    spec: str | None = None,
    *,
    limit: int | None = None,
    max_tokens: int = MAX_TOKENS,
    tokens: int | None = None,
    seed: int = 0,
    batch_size: int | None = None,
    **more: Any,
) -> Context:
    """Opens both halves of a set (or of a file, split by the seed).

    Args:
        lens: the model.
        spec: set or file; None takes the model's default set.
        limit: examples of each half; then ``tokens`` does not count.
        max_tokens: where each example is cut.
        tokens: tokens of each half; None takes what suits the size of the model.
        seed: for everything random.
        batch_size: examples a forward pass.
        more: further fields of :class:`Context`.

    Raises:
        DataError: no data for this model, or an empty half.
    """
    from headlens.data.encode import encode
    from headlens.data.select import default_for, load_data

    name = default_for(lens) if spec is None else spec
    kept = None if limit is not None else tokens or tokens_for(lens)
    halves = []
    splits: tuple[Split, ...] = ("score", "held-out")
    for split in splits:
        loaded = load_data(name, task=lens.task, split=split, limit=limit, seed=seed)
        found = encode(lens, loaded, max_tokens=max_tokens, seed=seed)
        halves.append(found if kept is None else some(found, kept, lens))
    score, held_out = halves
    options: dict[str, Any] = {"limit": limit, "tokens": kept, "max_tokens": max_tokens, "seed": seed, **more}
    return Context(lens, score, held_out, batch_size=batch_size, source=name, **options)
