"""From examples to tensors: each example is tokenised by itself, cut, and given its targets.

Nothing here depends on other examples, so neither order nor batch size can change what an example is.
"""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from headlens.data.batch import IGNORE, Batch, Encoded, EncodedData
from headlens.data.dataset import KINDS, DataSet, Example
from headlens.data.rows import shorten
from headlens.errors import DataError

if TYPE_CHECKING:
    from torch import Tensor

    from headlens.lens import Lens

__all__ = ["IGNORE", "KINDS", "MASKED_SHARE", "TOKENIZER_LOCK", "Batch", "Encoded", "EncodedData", "encode"]

MASKED_SHARE = 0.15
"""Share of an example's ordinary tokens that masked language models must guess (Devlin et al. 2019, section 3.1)."""

TOKENIZER_LOCK = threading.Lock()
"""Held around every call of a tokenizer: a fast one keeps the cut of the call in itself, so that two threads would
get each other's length."""


def encode(lens: Lens, data: DataSet, *, max_tokens: int = 128, seed: int = 0) -> EncodedData:
    """Tokenises ``data`` for the task of ``lens``.

    Args:
        lens: the opened model.
        data: the examples.
        max_tokens: cut of each example (source and target each).
        seed: draws the masked positions of masked language models.

    Raises:
        DataError: wrong kind of data for the task, empty or one-token texts only, labels out of range.
    """
    kinds = KINDS.get(lens.task)
    if kinds is None:
        raise DataError(f"{lens.name} is a {lens.task} model: it has no data path on the command line or in the app")
    if data.kind not in kinds:
        raise DataError(f"{lens.name} ({lens.task}) needs data of kind {kinds[0]}, and {data.name} is {data.kind}")
    if not data.examples:
        raise DataError(f"{data.name} has no examples")
    if max_tokens < 2:
        raise DataError(f"--max-tokens {max_tokens}: at least 2 are needed")
    encoder = _Encoder(lens, min(max_tokens, lens.max_positions or max_tokens), seed)
    examples = tuple(encoder(example, f"{data.name}, example {i + 1}") for i, example in enumerate(data.examples))
    encoded = EncodedData(data.name, data.split, examples, encoder.pad, lens.device)
    if lens.task != "embedding" and encoded.tokens == 0:
        raise DataError(f"{data.name}: nothing to predict; every text needs at least two tokens")
    return encoded


class _Encoder:
    """Tokenises single examples for one model."""

    def __init__(self, lens: Lens, max_tokens: int, seed: int) -> None:
        self.lens = lens
        self.tokenizer: Any = lens.tokenizer
        self.max_tokens = max_tokens
        self.seed = seed
        pad = getattr(self.tokenizer, "pad_token_id", None)
        self.pad = int(pad if pad is not None else 0)

    def __call__(self, example: Example, where: str) -> Encoded:
        task = self.lens.task
        if task == "causal-lm":
            inputs = self.text(example.text or "", where)
            return Encoded(inputs, torch.cat([inputs["input_ids"][1:], torch.tensor([IGNORE])]))
        if task == "masked-lm":
            return self.masked(example.text or "", where)
        if task == "embedding":
            return Encoded(self.text(example.text or "", where), None)
        if task == "seq2seq":
            return self.pair(example, where)
        label = torch.tensor([self.label(example.label, where)])
        if task == "text-classification":
            return Encoded(self.text(example.text or "", where, example.text_pair), label)
        return Encoded({"pixel_values": self.lens.pixels(example.image, where)}, label)

    def text(self, text: str, where: str, pair: str | None = None) -> dict[str, Tensor]:
        """Token ids, attention mask and, where the model takes them, segment ids, each ``[tokens]``."""
        found = self.tokenized(where, text=text, text_pair=pair)
        ids = torch.tensor(found["input_ids"], dtype=torch.long)
        inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        if "token_type_ids" in found and self.lens.accepts("token_type_ids"):
            segments = torch.tensor(found["token_type_ids"], dtype=torch.long)
            # GPT-2 takes such ids too, but has no embedding for segments: it would add that of token 0 everywhere.
            if int(segments.max()) < (getattr(self.lens.model.config, "type_vocab_size", None) or 0):
                inputs["token_type_ids"] = segments
        return inputs

    def tokenized(self, where: str, **texts: str | None) -> Mapping[str, list[int]]:
        """What the tokenizer makes of one example, cut to ``max_tokens``; raises DataError for unusable ids."""
        if self.tokenizer is None:
            raise DataError(f"{self.lens.name} has no tokenizer, so it cannot read text; add its tokenizer files")
        with TOKENIZER_LOCK:
            found = self.tokenizer(**texts, truncation=True, max_length=self.max_tokens)
        ids = found["input_ids"]
        if not ids:
            raise DataError(f"{where}: no tokens; the text is empty or has nothing that the tokenizer keeps")
        if len(ids) > self.max_tokens:  # tokenizers do not cut at all where their special tokens alone are too many
            raise DataError(f"{where}: {self.max_tokens} tokens are too few for the special ones; raise --max-tokens")
        if max(ids) >= self.lens.vocabulary:
            raise DataError(f"{where}: token id {max(ids)} is outside the model's vocabulary; wrong tokenizer?")
        return found

    def masked(self, text: str, where: str) -> Encoded:
        """Hides 15 % of the ordinary tokens (at least one), drawn by the seed and the text itself."""
        inputs = self.text(text, where)
        if self.tokenizer.mask_token_id is None:
            raise DataError(f"{self.lens.name}: its tokenizer has no mask token, so no word can be hidden; use drift")
        ids = inputs["input_ids"]
        special = self.tokenizer.get_special_tokens_mask(ids.tolist(), already_has_special_tokens=True)
        ordinary = [i for i, is_special in enumerate(special) if not is_special]
        targets = torch.full_like(ids, IGNORE)
        if ordinary:
            digest = hashlib.sha256(f"{self.seed}|".encode() + ids.numpy().tobytes()).digest()
            rng = np.random.default_rng(int.from_bytes(digest))
            count = max(1, round(MASKED_SHARE * len(ordinary)))
            hidden = torch.from_numpy(rng.choice(ordinary, count, replace=False))
            targets[hidden] = ids[hidden]
            inputs["input_ids"] = ids.clone()
            inputs["input_ids"][hidden] = self.tokenizer.mask_token_id
        return Encoded(inputs, targets)

    def pair(self, example: Example, where: str) -> Encoded:
        """Source tokens for the encoder; the target shifted right for the decoder."""
        inputs = self.text(example.source or "", f"{where} (source)")
        found = self.tokenized(f"{where} (target)", text_target=example.target or "")
        labels = torch.tensor(found["input_ids"], dtype=torch.long)
        inputs["decoder_input_ids"] = self.lens.shift_right(labels)
        inputs["decoder_attention_mask"] = torch.ones_like(labels)
        return Encoded(inputs, labels)

    def label(self, label: int | str | None, where: str) -> int:
        """Class number of a label: an int is the number, a str the name of a class or else its number."""
        config = self.lens.model.config
        # Configs may carry either table alone; id2label is the one that transformers keeps.
        names = {str(name): int(i) for i, name in (getattr(config, "id2label", None) or {}).items()}
        names |= {str(name): int(i) for name, i in (getattr(config, "label2id", None) or {}).items()}
        classes = int(getattr(config, "num_labels", len(names)))
        if classes < 2:
            raise DataError(f"{self.lens.name} gives one number, not classes; use a model with two classes or more")
        number = _class_number(label, names) if isinstance(label, str) else label
        if number is None or not 0 <= number < classes:
            shown = ", ".join(f"{i} ({shorten(name)})" for name, i in list(names.items())[:8])
            found = shorten(label)
            raise DataError(f"{where}: label {found!r} is not one of the model's {classes} classes: {shown}")
        return number


def _class_number(text: str, names: Mapping[str, int]) -> int | None:
    """A class by its name, with or without its capitals, or by its number."""
    text = text.strip()
    if text in names:
        return names[text]
    same = {i for name, i in names.items() if name.casefold() == text.casefold()}
    if len(same) == 1:
        return same.pop()
    return int(text) if re.fullmatch(r"[0-9]{1,9}", text) else None
