"""Models made by hand for claims: it is known what every head is worth, so it is known which claims hold.

An example is two tokens: one that says *kind* and *sign*, and the answer, ``yes`` for plus and ``no`` for minus. Only
the answer is predicted, so attention has nothing to choose: every head reads the first token. Head k (counted through
the layers) says ``strength[k]`` times the sign on examples of the kind that it serves; without it the model says
``base[kind]`` times the sign. So the loss on an example is softplus(-(base + strengths of its heads)), and switching a
head off changes only the examples of its kind. There are no norms and no MLPs, so this is exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from headlens.claims.context import Context
from headlens.data.encode import EncodedData
from headlens.lens import Lens
from tests.unit.helpers import open_lens, pack, sentence

HEADS, D_HEAD = 8, 4
WIDTH = HEADS * D_HEAD
OUT, CONSTANT = WIDTH - 1, WIDTH - 2
"""Entries of the residual stream: where heads write, and one that is always 1; the others are one for each kind."""
NO, YES = 0, 1
WORDS = ("no", "yes", *(f"{kind}{sign}" for kind in range(CONSTANT) for sign in "+-"))
Numbers = Sequence[float] | np.ndarray | float


def made(
    strength: Sequence[float] | np.ndarray,
    *,
    base: Numbers = 0.0,
    serves: Sequence[int] | None = None,
    magnitude: Numbers = 1.0,
    always: Numbers = 0.0,
) -> Lens:
    """The model.

    Args:
        strength: of each head; their number gives the layers.
        base: what the model says without any head, by kind.
        serves: the kind that each head serves; None: a kind of its own.
        magnitude: factor on a head's output weights that its values take back.
        always: what a head adds on every example, whatever its sign; the model takes it back elsewhere.
    """
    from transformers import GPT2Config, GPT2LMHeadModel

    count = len(strength)
    sizes: dict[str, Any] = {"n_layer": count // HEADS, "n_head": HEADS, "n_embd": WIDTH, "n_positions": 16}
    ends: dict[str, Any] = {"bos_token_id": 0, "eos_token_id": 0}
    model = GPT2LMHeadModel(
        GPT2Config(**sizes, **ends, n_inner=2, vocab_size=len(WORDS), tie_word_embeddings=False)
    ).double()
    for parameter in model.parameters():
        parameter.data.zero_()
    core: Any = model.transformer
    core.ln_f = nn.Identity()
    core.wte.weight.data[:, CONSTANT] = 1
    for kind in range(CONSTANT):
        core.wte.weight.data[2 + 2 * kind, kind], core.wte.weight.data[3 + 2 * kind, kind] = 1, -1
    for block in core.h:
        block.ln_1 = block.ln_2 = nn.Identity()
    factors, added = _each(magnitude, count), _each(always, count)
    for number in range(count):
        attention, place = core.h[number // HEADS].attn, number % HEADS * D_HEAD
        values, output = attention.c_attn.weight.data[:, 2 * WIDTH :], attention.c_proj.weight.data
        values[number if serves is None else serves[number], place] = 1 / factors[number]
        values[CONSTANT, place + 1] = 1
        output[place, OUT], output[place + 1, OUT] = strength[number] * factors[number], added[number]
    says = model.lm_head.weight.data
    says[YES, OUT], says[YES, CONSTANT] = 1, -sum(added)
    says[YES, :CONSTANT] = torch.tensor(_each(base, CONSTANT))
    says[2:, CONSTANT] = -100
    return open_lens(model, "causal-lm", name="made", tokenizer=_reader())


def _each(value: Numbers, count: int) -> list[float]:
    given = [value] * count if isinstance(value, (int, float)) else list(value)
    return given + [0.0] * (count - len(given))


def _reader() -> Any:
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    raw = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="no"))
    raw.pre_tokenizer = pre_tokenizers.WhitespaceSplit()  # type: ignore[assignment]
    return PreTrainedTokenizerFast(tokenizer_object=raw, pad_token="no", unk_token="no")


def lines(kinds: Sequence[int], each: int = 20) -> list[str]:
    """``each`` examples of both signs of every kind (a kind may be named more than once), as text."""
    return [f"{kind}{sign} {answer}" for kind in kinds for sign, answer in (("+", "yes"), ("-", "no"))] * each


def examples(kinds: Sequence[int], each: int = 20) -> EncodedData:
    """The same, tokenised."""
    return pack(sentence([WORDS.index(word) for word in line.split()]) for line in lines(kinds, each))


def context(lens: Lens, score: EncodedData, held_out: EncodedData | None = None) -> Context:
    """A run without a store; ``held_out`` None: other examples are not needed, since these models were not trained."""
    return Context(lens, score, score if held_out is None else held_out, batch_size=512)
