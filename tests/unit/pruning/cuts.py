"""Cuts of tiny models of every family, with the untouched copy beside them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from headlens.heads import Head, HeadSet
from headlens.lens import Lens
from headlens.models.loading import Loaded
from tests.unit.models.tiny import TINY, inputs_for

NAMES = tuple(name for name in TINY if not name.startswith("albert"))
"""Families whose layers have weights of their own."""


def choose(lens: Lens, which: Callable[[int, int, int], bool]) -> HeadSet:
    """The heads for which ``which(layer, head, number of the site)`` holds."""
    return HeadSet.of(
        Head(site.name, layer, head)
        for number, site in enumerate(lens.topology.sites)
        for layer, shape in enumerate(site.layers)
        for head in shape.heads
        if which(layer, head, number)
    )


KINDS: dict[str, Callable[[int, int, int], bool]] = {
    # Layers with 3, 1 and 4 heads (and, in the second and third site, other ones): groups of two are torn apart.
    "ragged": lambda layer, head, site: (
        (layer == 0 and head == (1 + site) % 4) or (layer == 1 and head != (2 + site) % 4)
    ),
    # The first layer, of which caches are asked, has no head left, and the second an uneven number.
    "whole layers": lambda layer, head, site: layer == 0 or (layer == 1 and head == 2),
    # Whole groups of grouped attention.
    "groups": lambda layer, head, site: (layer == 1 and head >= 2) or (layer == 2 and head < 2),
}


def state(model: PreTrainedModel) -> dict[str, Tensor]:
    """A copy of all tensors that are saved."""
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def same_state(model: PreTrainedModel, before: dict[str, Tensor]) -> bool:
    """Whether no bit of a model has changed."""
    now = model.state_dict()
    return now.keys() == before.keys() and all(torch.equal(now[name], before[name]) for name in before)


def prompt(name: str, model: Any) -> dict[str, Tensor]:
    """What a model continues: full rows, no padding."""
    kind = TINY[name].kind
    inputs = inputs_for(model, kind, torch.Generator().manual_seed(3), False, torch.float32)
    found = {key: value for key, value in inputs.items() if not key.startswith("decoder_")}
    return {"input_ids": found["input_ids"][:, :5]} if kind == "causal" else found


def write(model: PreTrainedModel, inputs: dict[str, Tensor], **more: Any) -> Any:
    """Six new tokens, with the logits of each step."""
    with torch.no_grad():
        return model.generate(  # type: ignore[operator]
            **inputs,
            max_new_tokens=6,
            min_new_tokens=6,
            do_sample=False,
            output_logits=True,
            return_dict_in_generate=True,
            **more,
        )


def as_loaded(lens: Lens, task: Any, tokenizer: Any = None) -> Loaded:
    """What a lens was opened from, with a task (tiny models have none)."""
    return Loaded(lens.model, tokenizer, None, lens.model.config, task, "tiny", "tiny", "local", None, (), None)  # type: ignore[arg-type]
