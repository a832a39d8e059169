"""Tokenizers of the zoo: a word or a part of a number word is a token, and decoding gives back readable text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from headlens.zoo import english, number_words

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

Style = Literal["causal", "masked", "pairs"]
PAD = 0
_GLUED_BEFORE = (".", ":", ")", "]", "’", "”")
_GLUED_AFTER = ("(", "[", "‘", "“")
_WORD = r"\w+|[^\w\s]"


def english_tokenizer(style: Literal["causal", "masked"]) -> PreTrainedTokenizerFast:
    """Words of small English: ``<s> ...`` for models that write, ``[CLS] ... [SEP]`` for those that fill gaps.

    A writing model's text is not closed with ``</s>``, so that a prompt can be continued.
    """
    from tokenizers import decoders, models

    special = ["<pad>", "<s>", "</s>", "<unk>"] if style == "causal" else ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]"]
    words = {word: i for i, word in enumerate([*special, *english.GRAMMAR.words])}
    backend = _backend(models.WordLevel(words, unk_token=special[3]))
    glue = [decoders.Replace(f" {mark}", mark) for mark in _GLUED_BEFORE]
    glue += [decoders.Replace(f"{mark} ", mark) for mark in _GLUED_AFTER]
    # A space in front of every word, all in one string, spaces off where they do not belong.
    backend.decoder = decoders.Sequence([decoders.WordPiece(prefix="##", cleanup=False), decoders.Fuse(), *glue])
    names = ("pad_token", "bos_token", "eos_token", "unk_token")
    if style == "masked":
        names = ("pad_token", "cls_token", "sep_token", "unk_token", "mask_token")
    return _wrap(backend, dict(zip(names, special, strict=True)), ("<s>",) if style == "causal" else ("[CLS]", "[SEP]"))


def number_tokenizer() -> PreTrainedTokenizerFast:
    """Words of both sides of the number words, German ones in parts (``sieben ##hundert ##drei``); ``</s>`` closes."""
    from tokenizers import decoders, models

    special = ["<pad>", "</s>", "<unk>"]
    first, inside = number_words.target_pieces()
    pieces = [*dict.fromkeys([*number_words.source_words(), *first]), *(f"##{piece}" for piece in inside)]
    backend = _backend(models.WordPiece({word: i for i, word in enumerate([*special, *pieces])}, unk_token="<unk>"))
    steps = [decoders.WordPiece(prefix="##", cleanup=False), decoders.Fuse(), decoders.Replace(" - ", "-")]
    backend.decoder = decoders.Sequence(steps)
    names = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
    return _wrap(backend, names, ("", "</s>"))


def tokenizer(style: Style) -> PreTrainedTokenizerFast:
    """The tokenizer of a style."""
    return number_tokenizer() if style == "pairs" else english_tokenizer(style)


def _backend(model: Any) -> Any:
    from tokenizers import Regex, Tokenizer, pre_tokenizers

    found = Tokenizer(model)
    found.pre_tokenizer = pre_tokenizers.Split(Regex(_WORD), "removed", invert=True)  # type: ignore[assignment]
    return found


def _wrap(backend: Any, names: dict[str, str], around: tuple[str, ...]) -> PreTrainedTokenizerFast:
    """The tokenizer with its special tokens, of which ``around`` stand before and after every text."""
    from tokenizers.processors import TemplateProcessing
    from transformers import PreTrainedTokenizerFast

    before, after = (*around, "")[:2]
    used = [(token, backend.token_to_id(token)) for token in around if token]
    single = " ".join(part for part in (before, "$A", after) if part)
    pair = " ".join(part for part in (before, "$A", after, "$B", after) if part)
    backend.post_processor = TemplateProcessing(single=single, pair=pair, special_tokens=used)
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, **names, clean_up_tokenization_spaces=False, padding_side="right"
    )
