"""Tokenised examples, and the padded batches they are run in.

Targets are aligned with the logits: ``targets[t]`` is the token that the logits at position ``t`` predict, or
``IGNORE``. So every task is scored by the same code, and padding never counts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from headlens.batching import at_once
from headlens.errors import DataError

IGNORE = -100
_PADDED = {"input_ids", "attention_mask", "token_type_ids", "decoder_input_ids", "decoder_attention_mask", "targets"}


@dataclass(frozen=True)
class Encoded:
    """One tokenised example: model inputs without a batch dimension, and its targets (None: nothing is predicted)."""

    inputs: Mapping[str, Tensor]
    targets: Tensor | None

    @cached_property
    def content(self) -> bytes:
        """What the example is, for hashes: independent of its place in the file."""
        tensors = dict(self.inputs) if self.targets is None else {**self.inputs, "targets": self.targets}
        # As bytes, since numpy knows no bfloat16 (pictures come in the dtype of the model).
        return b"|".join(
            f"{name}{tuple(value.shape)}".encode() + value.contiguous().flatten().view(torch.uint8).numpy().tobytes()
            for name, value in sorted(tensors.items())
        )

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
        """Padded batches, examples of similar length together; raises DataError unless ``batch_size`` is positive."""
        if batch_size < 1:
            raise DataError(f"--batch-size {batch_size}: at least 1 is needed")
        batch_size = at_once(batch_size)
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
