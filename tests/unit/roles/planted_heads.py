"""A GPT-2 whose heads are made by hand, so that it is known what each of them does.

The residual stream has four parts: the token, the position, the token before (written by L0H0) and the output.

* L0H0 looks at the position before and writes its token into the part "token before".
* L0H1 looks two positions back and says that token.
* L0H2 and L1H3 look at the first position and say that token: twins.
* L1H0 looks at itself and says nothing.
* L1H1 looks where "token before" is the current token and says what stands there: an induction head, which needs L0H0.
* The others have no weights at all, so they look everywhere alike.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor

from headlens.lens import Lens
from headlens.probes import Pair, TextSkill
from tests.unit.helpers import open_lens

SIZE = 64
"""Words, positions, and width of a head."""
TOKEN, POSITION, BEFORE, OUTPUT = (slice(i * SIZE, (i + 1) * SIZE) for i in range(4))
SHARP = 2.0
PREVIOUS, TWO_BACK, FIRST, TWIN, OWN, INDUCTION = "L0H0", "L0H1", "L0H2", "L1H3", "L1H0", "L1H1"
IDLE = ("L0H3", "L1H2")


def word_tokenizer() -> Any:
    """Words ``w2`` to ``w63``; [PAD] is 0 and [UNK] is 1."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import WhitespaceSplit
    from transformers import PreTrainedTokenizerFast

    words = ["[PAD]", "[UNK]", *(f"w{i}" for i in range(2, SIZE))]
    raw = Tokenizer(WordLevel({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
    raw.pre_tokenizer = WhitespaceSplit()  # type: ignore[assignment]
    return PreTrainedTokenizerFast(tokenizer_object=raw, pad_token="[PAD]", unk_token="[UNK]")


@cache
def planted() -> Lens:
    """The model; see the module."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        n_layer=2,
        n_head=4,
        n_embd=4 * SIZE,
        n_positions=SIZE,
        vocab_size=SIZE,
        bos_token_id=0,
        eos_token_id=0,
        tie_word_embeddings=False,
    )
    model = GPT2LMHeadModel(config).double().eval()
    for parameter in model.parameters():
        parameter.data = torch.zeros_like(parameter)
    core: Any = model.transformer
    for norm in [core.ln_f, *(each for block in core.h for each in (block.ln_1, block.ln_2))]:
        norm.weight.data.fill_(1.0)
    eye = torch.eye(SIZE).double()
    core.wte.weight.data[:, TOKEN] = eye
    core.wpe.weight.data[:, POSITION] = eye
    generator = torch.Generator().manual_seed(0)
    # What it says without any head is a matter of taste, so that a lost skill means guessing and not a tie.
    model.lm_head.weight.data[:, TOKEN] = torch.randn(SIZE, SIZE, generator=generator).double() * 0.05
    model.lm_head.weight.data[:, OUTPUT] = eye
    back_1, back_2 = (torch.roll(eye, -d, 1) * (torch.arange(SIZE) >= d)[:, None] for d in (1, 2))
    _head(core, 0, 0, query=(POSITION, back_1), key=(POSITION, eye), says=BEFORE, strength=1.0)
    _head(core, 0, 1, query=(POSITION, back_2), key=(POSITION, eye), says=OUTPUT, strength=0.5)
    _head(core, 0, 2, query=None, key=(POSITION, eye), says=OUTPUT, strength=0.25)
    _head(core, 1, 0, query=(POSITION, eye), key=(POSITION, eye), says=OUTPUT, strength=0.0)
    _head(core, 1, 1, query=(TOKEN, eye), key=(BEFORE, eye), says=OUTPUT, strength=1.0)
    _head(core, 1, 3, query=None, key=(POSITION, eye), says=OUTPUT, strength=0.25)
    return open_lens(model, "causal-lm", name="planted", tokenizer=word_tokenizer())


def _head(
    core: Any,
    layer: int,
    head: int,
    *,
    query: tuple[slice, Tensor] | None,
    key: tuple[slice, Tensor],
    says: slice,
    strength: float,
) -> None:
    """Sets one head's weights; ``query`` None looks at the first position from everywhere."""
    attention = core.h[layer].attn
    width = 4 * SIZE
    column = [slice(part * width + head * SIZE, part * width + (head + 1) * SIZE) for part in range(3)]
    if query is None:
        attention.c_attn.bias.data[column[0].start] = 10 * SHARP
    else:
        attention.c_attn.weight.data[query[0], column[0]] = SHARP * query[1]
    attention.c_attn.weight.data[key[0], column[1]] = SHARP * key[1]
    attention.c_attn.weight.data[TOKEN, column[2]] = torch.eye(SIZE).double() / 10  # the norm makes a 1 to about 10
    attention.c_proj.weight.data[head * SIZE : (head + 1) * SIZE, says] = strength * torch.eye(SIZE).double()


def _texts(seed: int) -> list[list[str]]:
    """Texts of six different words."""
    generator = torch.Generator().manual_seed(seed)
    drawn = [(torch.randperm(SIZE - 2, generator=generator) + 2)[:6].tolist() for _ in range(40)]
    return [[f"w{i}" for i in ids] for ids in drawn]


def two_back() -> TextSkill:
    """The word two before the last comes again; foil: another word of the text, since heads at rest say all of them."""
    pairs = tuple(Pair(" ".join(words), f" {words[3]}", f" {words[2]}") for words in _texts(1))
    return TextSkill("two-back", "Two back", "say the word two before the last", "made up", pairs)


def first_word() -> TextSkill:
    """The first word comes again; foil: the second."""
    pairs = tuple(Pair(" ".join(words), f" {words[0]}", f" {words[1]}") for words in _texts(2))
    return TextSkill("first-word", "First word", "say the first word", "made up", pairs)
