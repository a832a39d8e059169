"""What a probe asks: minimal pairs, and how they become rows that a model is run on."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import torch

from headlens.data.batch import IGNORE, Encoded, EncodedData

if TYPE_CHECKING:
    from torch import Tensor

    from headlens.lens import Lens

CHANCE = 0.5
"""Share of pairs that guessing between the two answers gets right."""


@dataclass(frozen=True)
class Pair:
    """One question with a right answer and a foil that differs from it as little as possible.

    Attributes:
        context: what stands before the answer (for translations: the beginning of the target).
        right, foil: the two answers, with the space in front of them where there is one.
        after: the rest of the text, for models that see both sides.
        source: the text to translate, for pairs about translating.
    """

    context: str
    right: str
    foil: str
    after: str = ""
    source: str | None = None


@dataclass(frozen=True)
class Row:
    """A pair as one model gets it.

    Attributes:
        inputs: model inputs without a batch dimension.
        position: where the logits of the answer stand.
        right, foil: token ids.
    """

    inputs: Mapping[str, Tensor]
    position: int
    right: int
    foil: int


@dataclass(frozen=True)
class Rows:
    """All rows of a skill for one model, and why pairs are missing.

    Attributes:
        rows: the usable ones.
        dropped: number of pairs that cannot be used, by reason.
    """

    rows: tuple[Row, ...]
    dropped: Mapping[str, int]

    @classmethod
    def of(cls, found: Sequence[Row | str]) -> Rows:
        """Sorts rows from reasons."""
        rows = tuple(row for row in found if isinstance(row, Row))
        return cls(rows, dict(Counter(reason for reason in found if isinstance(reason, str))))


@dataclass(frozen=True)
class PairData:
    """The rows of one skill as data that every measuring module takes.

    Attributes:
        data: the examples; the target at the answer's position is the right answer, everything else is ignored.
        position, right, foil: int64 ``[pairs]`` each, in the order of ``data``.
        dropped: see :class:`Rows`.
    """

    data: EncodedData
    position: Tensor
    right: Tensor
    foil: Tensor
    dropped: Mapping[str, int]

    def __len__(self) -> int:
        return len(self.data)

    @property
    def asked(self) -> int:
        """Number of pairs, the ones that cannot be used included."""
        return len(self) + sum(self.dropped.values())

    @cached_property
    def hash(self) -> str:
        """sha256 over the examples and both answers."""
        foils = ",".join(map(str, self.foil.tolist()))
        return hashlib.sha256(f"{self.data.hash}|{foils}".encode()).hexdigest()

    def differences(self, values: Tensor, indices: Sequence[int]) -> Tensor:
        """Logit of the right answer minus that of the foil, in nats, float64 ``[rows]`` on the CPU.

        Args:
            values: logits ``[rows, position, vocabulary]``.
            indices: which pair each row is.
        """
        logits, right, foil = self._at_answers(values, indices)
        found = logits.gather(1, torch.stack([right, foil], 1)).cpu().double()
        return found[:, 0] - found[:, 1]

    def losses(self, values: Tensor, indices: Sequence[int]) -> Tensor:
        """-log p of the right answer, in nats, float64 ``[rows]`` on the CPU; arguments as for :meth:`differences`.

        It sees what the foil does not: whether the model knows that an answer of this kind is due.
        """
        logits, right, _ = self._at_answers(values, indices)
        logits = logits.cpu().double()
        return logits.logsumexp(1) - logits.gather(1, right.cpu()[:, None])[:, 0]

    def _at_answers(self, values: Tensor, indices: Sequence[int]) -> tuple[Tensor, Tensor, Tensor]:
        """Logits ``[rows, vocabulary]`` where the answers stand, and both answers of those rows."""
        chosen = torch.as_tensor(indices)
        position, right, foil = (part[chosen].to(values.device) for part in (self.position, self.right, self.foil))
        return values[torch.arange(len(chosen), device=values.device), position].float(), right, foil


def pair_data(lens: Lens, name: str, rows: Rows) -> PairData:
    """The rows of the skill called ``name`` as data."""
    examples = []
    for row in rows.rows:
        ids = row.inputs["decoder_input_ids" if "decoder_input_ids" in row.inputs else "input_ids"]
        targets = torch.full_like(ids, IGNORE)
        targets[row.position] = row.right
        examples.append(Encoded(row.inputs, targets))
    pad = getattr(lens.tokenizer, "pad_token_id", None)
    data = EncodedData(f"probe {name}", "all", tuple(examples), int(pad or 0), lens.device)
    position, right, foil = (
        torch.tensor([getattr(row, part) for row in rows.rows], dtype=torch.long)
        for part in ("position", "right", "foil")
    )
    return PairData(data, position, right, foil, rows.dropped)
