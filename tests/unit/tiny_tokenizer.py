"""A word-level tokenizer for the tiny models of :mod:`tests.unit.helpers`: word ``w7`` is id 7."""

from __future__ import annotations

from typing import Any

from tests.unit.helpers import VOCAB

END = 2
WORDS = ("[PAD]", "[UNK]", "[END]", *(f"w{i}" for i in range(3, VOCAB - 1)), "[MASK]")


def tiny_tokenizer(*, closes_texts: bool = False) -> Any:
    """Words ``w3`` to ``w22``, and [PAD] 0, [UNK] 1, [END] 2, [MASK] 23; ``closes_texts`` puts [END] after texts."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import WhitespaceSplit
    from tokenizers.processors import TemplateProcessing
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = WhitespaceSplit()  # type: ignore[assignment]
    if closes_texts:
        tokenizer.post_processor = TemplateProcessing(  # type: ignore[assignment]
            single="$A [END]", special_tokens=[("[END]", END)]
        )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", eos_token="[END]", mask_token="[MASK]"
    )
