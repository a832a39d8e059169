"""What the model says next, with every head on and with some off: the top of both distributions side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import torch

from headlens.errors import DataError, HeadlensError
from headlens.metrics import at_least_float32, readout
from headlens.run import Edit, LayerKey, Run
from headlens.switches import off_mask
from headlens.tokens import TokenLabel, readable_tokens

if TYPE_CHECKING:
    from torch import Tensor

    from headlens.heads import HeadSet
    from headlens.lens import Lens

Kind = Literal["next", "mask", "class"]
_KINDS: Mapping[str, Kind] = {
    "causal-lm": "next",
    "seq2seq": "next",
    "masked-lm": "mask",
    "text-classification": "class",
    "image-classification": "class",
}
CONTEXT = 4
"""Tokens in front of a candidate that its label is read with: enough for the bytes of one character."""


@dataclass(frozen=True)
class Choice:
    """One possible answer.

    Attributes:
        id: token id or class number.
        label: the token as a person reads it, or the class's name.
        before, after: its probability with every head on, and with the heads off.
    """

    id: int
    label: TokenLabel
    before: float
    after: float

    @property
    def change(self) -> float:
        """Change of the probability by the switch."""
        return self.after - self.before


@dataclass(frozen=True)
class NextTokens:
    """The most probable answers before and after.

    Attributes:
        kind: ``next`` (the token after the text), ``mask`` (the hidden token) or ``class``.
        position: position of the logits that were read; 0 for classes.
        off: HEADS that are off.
        choices: the union of both top-k lists, by probability before, largest first.
        drift: KL(before || after) of the whole distribution, nats.
    """

    kind: Kind
    position: int
    off: str
    choices: tuple[Choice, ...]
    drift: float

    @property
    def top_before(self) -> Choice:
        """The first answer with every head on."""
        return max(self.choices, key=lambda choice: choice.before)

    @property
    def top_after(self) -> Choice:
        """The first answer with the heads off."""
        return max(self.choices, key=lambda choice: choice.after)

    @property
    def changed(self) -> bool:
        """Whether the first answer is another one."""
        return self.top_before.id != self.top_after.id


def next_tokens(
    lens: Lens,
    inputs: Mapping[str, Tensor],
    off: HeadSet,
    k: int = 10,
    means: Mapping[LayerKey, Tensor] | None = None,
) -> NextTokens:
    """Top answers of the first row of ``inputs`` with all heads on and with ``off`` zero- or mean-ablated.

    Causal models are read at the last position, masked ones at the first mask token, encoder-decoder models at the last
    position of ``decoder_input_ids`` (without any, at the first token of the target), classifiers as they are.

    Args:
        lens: the model.
        inputs: from :func:`headlens.attention.prompt_inputs`, or pixel values.
        off: heads that are off.
        k: length of each of the two lists.
        means: by layer what the heads write instead, ``[heads, d_head]`` (:meth:`headlens.live.LiveEvaluator.means`);
            None: zero.

    Raises:
        HeadlensError: models that predict nothing, a prompt without the mask token, or ``k`` below 1.
        HeadError: the model does not have one of the heads.
    """
    if k < 1:
        raise HeadlensError(f"{k} answers were asked for; ask for at least 1")
    question = Question(lens, inputs)
    edits = edits_of(lens, off, means)
    before = question.logits(Run())[0].log_softmax(-1)
    after = question.logits(Run(edits=edits))[0].log_softmax(-1) if edits else before
    drift = float((before.exp() * (before - after)).sum())
    tops = [values.topk(min(k, len(values))).indices.tolist() for values in (before, after)]
    first, second = before.exp(), after.exp()
    ids = sorted(dict.fromkeys(tops[0] + tops[1]), key=lambda i: -float(first[i]))
    labels = question.labels(ids)
    choices = tuple(Choice(i, labels[i], float(first[i]), float(second[i])) for i in ids)
    return NextTokens(question.kind, question.position, lens.topology.format(off), choices, max(0.0, drift))


def edits_of(lens: Lens, off: HeadSet, means: Mapping[LayerKey, Tensor] | None = None) -> dict[LayerKey, Edit]:
    """Edits that set ``z`` of the heads in ``off`` to zero or to their means; raises HeadError."""
    return {
        key: Edit(off=mask.to(lens.device), value=None if means is None else means[key])
        for key, mask in off_mask(lens.topology, off).items()
    }


class Question:
    """One input whose answer is one distribution: which position is read, and what its entries are called.

    Args:
        lens: the model.
        inputs: model inputs; only their first row is taken.

    Attributes:
        kind, position: see :class:`NextTokens`.
        inputs: what the model gets, each ``[1, ...]``.

    Raises:
        HeadlensError: see :func:`next_tokens`.
    """

    def __init__(self, lens: Lens, inputs: Mapping[str, Tensor]) -> None:
        if lens.task not in _KINDS:
            raise HeadlensError(f"{lens.name} ({lens.task}) predicts no token and no class; look at its drift instead")
        self.lens = lens
        self.kind: Kind = _KINDS[lens.task]
        self.inputs = {name: value[:1] for name, value in inputs.items()}
        if lens.task == "seq2seq" and "decoder_input_ids" not in self.inputs:
            start = lens.shift_right(torch.zeros(1, dtype=torch.long))[None].to(lens.device)
            self.inputs |= {"decoder_input_ids": start, "decoder_attention_mask": torch.ones_like(start)}
        ids = self.inputs.get("decoder_input_ids" if lens.task == "seq2seq" else "input_ids")
        self.ids: list[int] = [] if ids is None else ids[0].tolist()
        if self.kind != "class" and not self.ids:
            raise DataError("the prompt has no tokens; write some text")
        self.position = {"next": len(self.ids) - 1, "mask": -1, "class": 0}[self.kind]
        if self.kind == "mask":
            self.position = self._first_mask()

    def _first_mask(self) -> int:
        tokenizer: Any = self.lens.tokenizer
        mask = getattr(tokenizer, "mask_token_id", None)
        if mask is None:
            raise HeadlensError(f"{self.lens.name}: its tokenizer has no mask token, so no word can be guessed")
        if mask not in self.ids:
            raise HeadlensError(
                f"the prompt hides no word: write {tokenizer.mask_token} where {self.lens.name} is to guess one"
            )
        return self.ids.index(mask)

    def logits(self, run: Run, rows: int = 1) -> Tensor:
        """The answer's logits under ``run``, at least float32 ``[rows, classes]``, for ``rows`` copies of the input.

        The caller may ask for gradients; else none are kept.
        """
        inputs = {name: value.expand(rows, *value.shape[1:]) for name, value in self.inputs.items()}
        gates = any(edit.gate is not None for edit in run.edits.values())
        with torch.enable_grad() if gates else torch.inference_mode():
            values = readout(self.lens.forward(inputs, run), self.lens.task)
            return at_least_float32(values[:, self.position])

    def labels(self, ids: Sequence[int]) -> dict[int, TokenLabel]:
        """A readable label for each possible answer, tokens as they would read after what is in front of them."""
        if self.kind == "class":
            names = getattr(self.lens.model.config, "id2label", None) or {}
            return {i: TokenLabel(str(names.get(i, f"class {i}")), i, "") for i in ids}
        before = self.ids[: self.position + (self.kind == "next")][-CONTEXT:]
        return {i: token_labels(self.lens, [*before, i])[-1] for i in ids}


def token_labels(lens: Lens, ids: Sequence[int]) -> list[TokenLabel]:
    """Readable labels of a sequence; the bare numbers where the model came without a tokenizer."""
    if lens.tokenizer is None:
        return [TokenLabel(f"[id {i}]", i, "") for i in ids]
    return readable_tokens(lens.tokenizer, ids)
