"""A word-level tokenizer for the tiny models of :mod:`tests.unit.helpers`: word ``w7`` is id 7."""

from __future__ import annotations

from typing import Any

from tests.unit.helpers import VOCAB

END, MASK = 2, 23


def tiny_tokenizer(*, closes_texts: bool = False) -> Any:
    """Words ``w3`` to ``w22``, and [PAD] 0, [UNK] 1, [END] 2, [MASK] 23; with ``closes_texts`` each text ends in [END]."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import WhitespaceSplit
    from tokenizers.processors import TemplateProcessing
    from transformers import PreTrainedTokenizerFast

    words = ["[PAD]", "[UNK]", "[END]", *(f"w{i}" for i in range(3, VOCAB - 1)), "[MASK]"]
    tokenizer = Tokenizer(WordLevel({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = WhitespaceSplit()  # type: ignore[assignment]
    if closes_texts:
        tokenizer.post_processor = TemplateProcessing(  # type: ignore[assignment]
            single="$A [END]", special_tokens=[("[END]", END)]
        )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", eos_token="[END]", mask_token="[MASK]"
    )
