"""How far a model of small English is from the best possible one, on stories that no training draws."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional

from headlens.lab.language import Language
from headlens.zoo import english
from headlens.zoo.recipes import reader

if TYPE_CHECKING:
    from torch import Tensor

SCORE_STORIES, HELD_OUT_STORIES = 32, 256


@dataclass(frozen=True)
class Stories:
    """Stories to measure on.

    Attributes:
        ids: ``<s> ... </s>`` padded, int64 ``[stories, tokens]``.
        mask: which of them are there, ``[stories, tokens]``.
        entropy: information content in nats of each story given the grammar, ``[stories]``.
    """

    ids: Tensor
    mask: Tensor
    entropy: Tensor


@cache
def stories(purpose: str, number: int) -> Stories:
    """Seeded stories that no training draws."""
    tokenizer: Any = reader(Language().recipe)
    vocabulary, rng = tokenizer.get_vocab(), Random(f"lab|{purpose}")
    words = [english.story(rng).words for _ in range(number)]
    rows = [[tokenizer.bos_token_id, *(vocabulary[w] for w in each), tokenizer.eos_token_id] for each in words]
    longest = max(map(len, rows))
    ids = torch.tensor([row + [tokenizer.pad_token_id] * (longest - len(row)) for row in rows])
    mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows])
    # The end of a story is certain, so it adds nothing.
    entropy = torch.tensor([-sum(english.GRAMMAR.log_probabilities(each)) for each in words], dtype=torch.float64)
    return Stories(ids, mask, entropy)


def excess(model: Any, text: Stories, off: Mapping[int, Sequence[int]] | None = None, d_head: int = 16) -> Tensor:
    """Loss of each story above its information content, in nats, float64 ``[stories]``.

    Args:
        model: in eval mode.
        text: the stories.
        off: heads whose ``z`` is set to zero, by layer.
        d_head: width of a head's ``z``.
    """
    with torch.inference_mode(), _switched(model, off or {}, d_head):
        logits = model(input_ids=text.ids, attention_mask=text.mask, use_cache=False).logits[:, :-1]
        losses = functional.cross_entropy(logits.flatten(0, 1).float(), text.ids[:, 1:].flatten(), reduction="none")
    return (losses.view(len(text.ids), -1).double() * text.mask[:, 1:]).sum(1) - text.entropy


@dataclass(frozen=True)
class Gap:
    """Mean excess in nats a token, and its standard error over stories."""

    value: float
    sem: float


def gap(losses: Tensor, text: Stories) -> Gap:
    """The ratio of summed excess to tokens; its error by linearisation."""
    tokens = text.mask[:, 1:].sum(1).double()
    value = float(losses.sum() / tokens.sum())
    spread = (losses - value * tokens).std() * len(tokens) ** 0.5 / tokens.sum()
    return Gap(value, float(spread))


@contextmanager
def _switched(model: Any, off: Mapping[int, Sequence[int]], d_head: int) -> Iterator[None]:
    handles = []

    def hook(heads: Sequence[int]) -> Callable[..., tuple[Tensor]]:
        columns = [head * d_head + place for head in heads for place in range(d_head)]

        def zero(_module: Any, args: tuple[Tensor, ...]) -> tuple[Tensor]:
            z = args[0].clone()
            z[..., columns] = 0
            return (z,)

        return zero

    try:
        for layer, heads in off.items():
            if heads:
                attention = model.model.layers[layer].self_attn
                handles.append(attention.o_proj.register_forward_pre_hook(hook(heads)))
        yield
    finally:
        for handle in handles:
            handle.remove()
