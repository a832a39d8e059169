"""From pairs of texts to rows: the two whole strings are tokenised, and scored where they first differ.

Answers are never tokenised alone, so a leading space, or a piece that grows together with what is before it, is what it
would be in running text.

* Models that write score the first token in which the strings differ, from what is before it.
* Models that fill gaps get the whole text with a mask there, so the strings must differ in exactly one token.
* Encoder-decoder models translate the pair's source; a pair without one becomes a gap in the encoder's text, if the
  tokenizer has a token for gaps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from headlens.data.encode import TOKENIZER_LOCK
from headlens.errors import HeadlensError
from headlens.probes.pairs import Pair, Row, Rows

if TYPE_CHECKING:
    from torch import Tensor

    from headlens.lens import Lens

TASKS = ("causal-lm", "masked-lm", "seq2seq")
"""Models that say a token and so can be probed."""
SENTINEL = "<extra_id_0>"
SENTINEL_END = "<extra_id_1>"

UNKNOWN = "a word that the tokenizer does not know"
NO_CONTEXT = "nothing before the answer"
SAME_BEGINNING = "one answer begins with the other"
LONGER = "an answer of more than one token"
TOO_LONG = "longer than the model reads"
NO_SOURCE = "made for models that translate"
NO_GAP = "the tokenizer has no token for a gap"
NOT_KNOWN = "token ids outside the vocabulary"


def rows_of(lens: Lens, pairs: Sequence[Pair]) -> Rows:
    """Rows of the usable pairs, in order.

    Raises:
        HeadlensError: the model predicts no tokens or came without a tokenizer.
    """
    if lens.task not in TASKS:
        raise HeadlensError(
            f"{lens.name} ({lens.task}) says no words, so its skills cannot be probed; use a model that does"
        )
    if lens.tokenizer is None:
        raise HeadlensError(f"{lens.name} has no tokenizer, so it cannot read the pairs; add its tokenizer files")
    encoder = _Encoder(lens)
    return Rows.of([encoder(pair) for pair in pairs])


class _Encoder:
    """Turns single pairs into rows, or says why it cannot."""

    def __init__(self, lens: Lens) -> None:
        self.lens = lens
        self.tokenizer: Any = lens.tokenizer
        self.longest = lens.max_positions
        self.unknown = _unknown_id(self.tokenizer)
        self.sentinels = lens.task == "seq2seq" and SENTINEL in self.tokenizer.get_vocab()

    def __call__(self, pair: Pair) -> Row | str:
        if self.lens.task == "seq2seq":
            return self._target(pair)
        if pair.source is not None:
            return NO_SOURCE
        return self._next(pair) if self.lens.task == "causal-lm" else self._gap(pair)

    def _next(self, pair: Pair) -> Row | str:
        right, foil = (self._ids(pair.context + answer) for answer in (pair.right, pair.foil))
        at = _first_difference(right, foil)
        if isinstance(at, str):
            return at
        context = right[:at]
        if reason := self._unusable([*context, right[at], foil[at]], len(context)):
            return reason
        return Row(self._inputs(context), at - 1, right[at], foil[at])

    def _gap(self, pair: Pair) -> Row | str:
        mask = getattr(self.tokenizer, "mask_token_id", None)
        if mask is None:
            return NO_GAP
        right, foil = (self._ids(pair.context + answer + pair.after) for answer in (pair.right, pair.foil))
        if len(right) != len(foil):
            return LONGER
        differing = [i for i, (one, other) in enumerate(zip(right, foil, strict=True)) if one != other]
        if len(differing) != 1:
            return LONGER if differing else SAME_BEGINNING
        (at,) = differing
        if reason := self._unusable([*right, foil[at]], len(right)):
            return reason
        return Row(self._inputs([*right[:at], int(mask), *right[at + 1 :]]), at, right[at], foil[at])

    def _target(self, pair: Pair) -> Row | str:
        texts = self._texts(pair)
        if isinstance(texts, str):
            return texts
        source = self._ids(texts[0])
        right, foil = (self._target_ids(text) for text in texts[1:])
        at = _first_difference(right, foil, least=0)
        if isinstance(at, str):
            return at
        if reason := self._unusable([*source, *right[: at + 1], foil[at]], max(len(source), at + 1)):
            return reason
        target = self.lens.shift_right(torch.tensor(right))[: at + 1]
        inputs = self._inputs(source)
        inputs |= {"decoder_input_ids": target, "decoder_attention_mask": torch.ones_like(target)}
        return Row(inputs, at, right[at], foil[at])

    def _texts(self, pair: Pair) -> tuple[str, str, str] | str:
        """The encoder's text and both targets."""
        answers = pair.right, pair.foil
        if pair.source is not None:
            right, foil = (pair.context + answer + pair.after for answer in answers)
            return pair.source, right, foil
        space = " " if pair.right.startswith(" ") else ""
        if self.sentinels:  # T5: the answer alone is written
            right, foil = (f"{SENTINEL}{answer} {SENTINEL_END}" for answer in answers)
            return f"{pair.context}{space}{SENTINEL}{pair.after}", right, foil
        mask = getattr(self.tokenizer, "mask_token", None)
        if mask is None:
            return NO_GAP
        right, foil = (pair.context + answer + pair.after for answer in answers)
        return f"{pair.context}{space}{mask}{pair.after}", right, foil  # BART: the whole text is written

    def _ids(self, text: str) -> list[int]:
        with TOKENIZER_LOCK:
            return list(self.tokenizer(text)["input_ids"])

    def _target_ids(self, text: str) -> list[int]:
        with TOKENIZER_LOCK:
            return list(self.tokenizer(text_target=text)["input_ids"])

    def _inputs(self, ids: Sequence[int]) -> dict[str, Tensor]:
        tensor = torch.tensor(ids, dtype=torch.long)
        return {"input_ids": tensor, "attention_mask": torch.ones_like(tensor)}

    def _unusable(self, ids: Sequence[int], length: int) -> str:
        if self.unknown is not None and self.unknown in ids:
            return UNKNOWN
        if max(ids) >= self.lens.vocabulary:
            return NOT_KNOWN
        return TOO_LONG if self.longest is not None and length > self.longest else ""


def _unknown_id(tokenizer: Any) -> int | None:
    """The id that stands for unknown words; None where that token has another use (byte-level tokenizers name it the
    same as the end of a text, and know every word)."""
    unknown = getattr(tokenizer, "unk_token_id", None)
    names = ("bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id")
    return None if unknown in [getattr(tokenizer, name, None) for name in names] else unknown


def _first_difference(right: Sequence[int], foil: Sequence[int], least: int = 1) -> int | str:
    """Index of the first token in which both differ, or why there is none with ``least`` tokens before it."""
    for at, (one, other) in enumerate(zip(right, foil, strict=False)):
        if one != other:
            return at if at >= least else NO_CONTEXT
    return SAME_BEGINNING
