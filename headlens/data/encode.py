"""From examples to tensors: each example is tokenised by itself, then padded into batches.

The targets are aligned with the logits: ``targets[t]`` is the token that the logits at position ``t`` predict, or
``IGNORE``. So every task is scored by the same code, and padding never counts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from headlens.data.dataset import DataSet, Example, Kind
from headlens.errors import DataError

if TYPE_CHECKING:
    from torch import Tensor

    from headlens.lens import Lens

IGNORE = -100
MASKED_SHARE = 0.15
_PADDED = {"input_ids", "attention_mask", "token_type_ids", "decoder_input_ids", "decoder_attention_mask", "targets"}
_DECODER = ("decoder_input_ids", "decoder_attention_mask")

KINDS: Mapping[str, tuple[Kind, ...]] = {
    "causal-lm": ("text",),
    "masked-lm": ("text",),
    "embedding": ("text",),
    "seq2seq": ("pairs",),
    "text-classification": ("labelled",),
    "image-classification": ("images",),
}
"""Which kinds of data each task takes."""


@dataclass(frozen=True)
class Encoded:
    """One tokenised example: model inputs without a batch dimension, and its targets (None: nothing is predicted)."""

    inputs: Mapping[str, Tensor]
    targets: Tensor | None

    @cached_property
    def content(self) -> bytes:
        """What the example is, for hashes: independent of its place in the file."""
        parts = [name.encode() + value.numpy().tobytes() for name, value in sorted(self.inputs.items())]
        return b"|".join([*parts, b"" if self.targets is None else self.targets.numpy().tobytes()])

    @property
    def length(self) -> int:
        """Tokens of the longer side (pictures: 1), for sorting into batches."""
        return max((len(v) for name, v in self.inputs.items() if name.endswith("input_ids")), default=1)

    @property
    def predicted(self) -> int:
        """Number of positions that are scored."""
        return 0 if self.targets is None else int((self.targets != IGNORE).sum())


@dataclass(frozen=True)
class Batch:
    """Padded tensors of some examples, on the model's device.

    Attributes:
        indices: position of each row's example in the data, ``[rows]``.
        inputs: model inputs, each ``[rows, ...]``.
        targets: ``[rows, position]`` aligned with the logits, or None.
    """

    indices: tuple[int, ...]
    inputs: dict[str, Tensor]
    targets: Tensor | None

    def positions(self, site: str, length: int) -> Tensor:
        """Non-padding query positions of a site, bool ``[rows, query]``."""
        name = "decoder_attention_mask" if site in ("dec", "cross") else "attention_mask"
        mask = self.inputs.get(name)
        if mask is None:
            device = next(iter(self.inputs.values())).device
            return torch.ones(len(self.indices), length, dtype=torch.bool, device=device)
        return mask.bool()

    def query_length(self, site: str) -> int:
        """Number of query positions that a site has in this batch; 0 if only the model knows (pictures)."""
        name = "decoder_input_ids" if site in ("dec", "cross") else "input_ids"
        ids = self.inputs.get(name)
        return 0 if ids is None else ids.shape[1]

    def repeat(self, times: int) -> Batch:
        """The rows ``times`` times over: copy 0 of all rows, then copy 1, ..."""
        return Batch(
            self.indices * times,
            {name: value.repeat(times, *[1] * (value.dim() - 1)) for name, value in self.inputs.items()},
            None if self.targets is None else self.targets.repeat(times, 1),
        )


@dataclass(frozen=True)
class EncodedData:
    """Tokenised examples of one data set for one model.

    Attributes:
        name: name of the set or file.
        split: which part of it.
        examples: the tokenised examples.
        pad: id that fills up shorter rows of ``input_ids`` (it is never looked at).
        device: where batches go.
    """

    name: str
    split: str
    examples: tuple[Encoded, ...]
    pad: int
    device: torch.device

    def __len__(self) -> int:
        return len(self.examples)

    @cached_property
    def hash(self) -> str:
        """sha256 over the tokenised examples in their order."""
        digest = hashlib.sha256()
        for example in self.examples:
            digest.update(hashlib.sha256(example.content).digest())
        return digest.hexdigest()

    @property
    def tokens(self) -> int:
        """Number of predicted positions over all examples (0 where nothing is predicted)."""
        return sum(example.predicted for example in self.examples)

    def batches(self, batch_size: int) -> list[Batch]:
        """Padded batches, examples of similar length together."""
        order = sorted(range(len(self.examples)), key=lambda i: -self.examples[i].length)
        return [self.batch(order[i : i + batch_size]) for i in range(0, len(order), batch_size)]

    def batch(self, indices: Sequence[int]) -> Batch:
        """One padded batch of the named examples."""
        chosen = [self.examples[i] for i in indices]
        inputs = {}
        for name in chosen[0].inputs:
            fill = self.pad if name.endswith("input_ids") else 0
            inputs[name] = _stack([example.inputs[name] for example in chosen], name, fill).to(self.device)
        targets = None
        if chosen[0].targets is not None:
            targets = _stack([e.targets for e in chosen if e.targets is not None], "targets", IGNORE).to(self.device)
        return Batch(tuple(indices), inputs, targets)


def _stack(rows: list[Tensor], name: str, fill: int) -> Tensor:
    if name not in _PADDED:
        return torch.stack(rows)
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=fill)


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

    def text(self, text: str, where: str, pair: str | None = None, **kwargs: Any) -> dict[str, Tensor]:
        """Token ids, attention mask and, where the model takes them, segment ids, each ``[tokens]``."""
        found = self.tokenizer(text, pair, truncation=True, max_length=self.max_tokens, **kwargs)
        ids = torch.tensor(found["input_ids"], dtype=torch.long)
        if len(ids) == 0:
            raise DataError(f"{where}: no tokens; the text is empty or has nothing that the tokenizer keeps")
        if int(ids.max()) >= self.lens.vocabulary:
            raise DataError(f"{where}: token id {int(ids.max())} is outside the model's vocabulary; wrong tokenizer?")
        inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        if "token_type_ids" in found and self.lens.accepts("token_type_ids"):
            inputs["token_type_ids"] = torch.tensor(found["token_type_ids"], dtype=torch.long)
        return inputs

    def masked(self, text: str, where: str) -> Encoded:
        """Hides 15 % of the ordinary tokens (at least one), drawn by the seed and the text itself."""
        inputs = self.text(text, where)
        ids = inputs["input_ids"]
        special = self.tokenizer.get_special_tokens_mask(ids.tolist(), already_has_special_tokens=True)
        ordinary = [i for i, is_special in enumerate(special) if not is_special]
        targets = torch.full_like(ids, IGNORE)
        if ordinary:
            digest = hashlib.sha256(ids.numpy().tobytes()).digest()
            rng = np.random.default_rng([self.seed, *np.frombuffer(digest, dtype=np.uint32).tolist()])
            count = max(1, round(MASKED_SHARE * len(ordinary)))
            hidden = torch.from_numpy(rng.choice(ordinary, count, replace=False))
            targets[hidden] = ids[hidden]
            inputs["input_ids"] = ids.clone()
            inputs["input_ids"][hidden] = self.tokenizer.mask_token_id
        return Encoded(inputs, targets)

    def pair(self, example: Example, where: str) -> Encoded:
        """Source tokens for the encoder; the target shifted right for the decoder."""
        inputs = self.text(example.source or "", f"{where} (source)")
        found = self.tokenizer(text_target=example.target or "", truncation=True, max_length=self.max_tokens)
        labels = torch.tensor(found["input_ids"], dtype=torch.long)
        if len(labels) == 0:
            raise DataError(f"{where}: the target has no tokens")
        if int(labels.max()) >= self.lens.vocabulary:
            raise DataError(f"{where}: target id {int(labels.max())} is outside the model's vocabulary")
        inputs["decoder_input_ids"] = self.lens.shift_right(labels)
        inputs["decoder_attention_mask"] = torch.ones_like(labels)
        return Encoded(inputs, labels)

    def label(self, label: int | str | None, where: str) -> int:
        """Checks a class label, given as a number or a class name."""
        names: Mapping[str, int] = getattr(self.lens.model.config, "label2id", None) or {}
        classes = int(getattr(self.lens.model.config, "num_labels", len(names)))
        text = str(label).strip()
        number = names.get(text, names.get(text.upper(), names.get(text.lower(), text)))
        if isinstance(number, str) and number.lstrip("-").isdigit():
            number = int(number)
        if not isinstance(number, int) or not 0 <= number < classes:
            shown = ", ".join(f"{i} ({name})" for name, i in list(names.items())[:8])
            raise DataError(f"{where}: label {text!r} is not one of the model's {classes} classes: {shown}")
        return number
