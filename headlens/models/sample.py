"""A small batch that any model takes: for comparing two models that should agree."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel

ROWS, LENGTH, SHORTER = 2, 12, 7
_TEXT = "A bird sat on the old wall, sang to the dog in the garden and then flew away over the hills to the sea."
_ENOUGH = 6
"""So many different tokens make a text worth taking."""


def sample_inputs(model: PreTrainedModel, tokenizer: Any = None, seed: int = 0) -> dict[str, Tensor]:
    """Two rows of what ``model`` takes: a short text, a made-up picture or sound, on the model's device.

    The second row of tokens is shorter and padded where the model has a padding id; without one there is one row,
    because some classifiers take no batch then. Without a tokenizer, or with one that does not know the words, the
    tokens are random.
    """
    config, device = model.config, model.device
    taken = inspect.signature(model.forward).parameters
    generator = torch.Generator().manual_seed(seed)
    found: dict[str, Tensor] = {}
    if "input_ids" in taken:
        found |= _tokens(config.get_text_config(), tokenizer, generator)
    rows = len(found["input_ids"]) if found else ROWS
    if "pixel_values" in taken:
        vision = getattr(config, "vision_config", config)
        size = vision.image_size
        height, width = (size, size) if isinstance(size, int) else size
        shape = (rows, int(getattr(vision, "num_channels", 3)), int(height), int(width))
        found["pixel_values"] = torch.randn(shape, generator=generator).to(model.dtype)
    if "input_features" in taken:
        shape = (rows, config.num_mel_bins, 2 * config.max_source_positions)
        found["input_features"] = torch.randn(shape, generator=generator).to(model.dtype)
    if "decoder_input_ids" in taken and config.is_encoder_decoder:
        ids = _tokens(config, tokenizer, generator)["input_ids"][:1]
        found["decoder_input_ids"] = ids.expand(rows, -1)
    return {name: value.to(device) for name, value in found.items()}


def _tokens(config: Any, tokenizer: Any, generator: torch.Generator) -> dict[str, Tensor]:
    """Ids that end in the end-of-sequence id, which comes up nowhere else (some classifiers count it)."""
    vocabulary = int(config.vocab_size)
    end, pad = (_first(getattr(config, name, None)) for name in ("eos_token_id", "pad_token_id"))
    rows = 1 if pad is None else ROWS
    ids = torch.randint(0, vocabulary, (rows, LENGTH), generator=generator)
    text = [] if tokenizer is None else tokenizer(_TEXT)["input_ids"][:LENGTH]
    if len(text) == LENGTH and max(text) < vocabulary and len(set(text)) >= _ENOUGH:
        ids = torch.tensor([text] * rows)
    special = {value for value in (end, pad) if value is not None}
    ordinary = next((value for value in range(vocabulary - 1, -1, -1) if value not in special), 0)
    for value in special:
        ids[ids == value] = ordinary
    mask = torch.ones_like(ids)
    for row, length in enumerate((LENGTH, SHORTER)[:rows]):
        if end is not None and end < vocabulary:
            ids[row, length - 1] = end
        if pad is not None:
            ids[row, length:] = pad if pad < vocabulary else ordinary
        mask[row, length:] = 0
    return {"input_ids": ids, "attention_mask": mask}


def _first(value: Any) -> int | None:
    found = value[0] if isinstance(value, (list, tuple)) and value else value
    return found if isinstance(found, int) and found >= 0 else None


def tensors_of(output: Any) -> dict[str, Tensor]:
    """The tensors of a model's output by name; not its caches."""
    return {name: value for name, value in output.items() if isinstance(value, torch.Tensor)}
