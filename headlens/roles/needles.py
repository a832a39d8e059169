"""Long texts with one sentence in them that does not belong there, and the beginning of that sentence at the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from headlens.data.batch import Encoded, EncodedData
from headlens.data.builtin import read_builtin
from headlens.data.encode import TOKENIZER_LOCK
from headlens.metrics import readout
from headlens.roles.base import Needle
from headlens.run import Run

if TYPE_CHECKING:
    from headlens.data.batch import Batch
    from headlens.lens import Lens

NEEDLES = (
    ("The secret of the lighthouse keeper is", " a green bottle under the third stair."),
    ("The password for the garden gate is", " seven yellow tulips and one bell."),
    ("The best meal in the village is", " fish soup with bread at the old mill."),
    ("The name of the captain's parrot is", " Admiral Walnut the Second."),
    ("The treasure of the island lies", " behind the waterfall near two crooked pines."),
    ("The first train to the coast leaves", " at twenty past four from platform nine."),
)
"""Each sentence as its beginning, which is the question, and the rest, which is to be said."""
LENGTH = 400
"""Tokens of the text around the sentence, about."""
LEAST_POSITIONS = 256
SAID = 0.5
"""An example counts if the model says more than this share of the sentence; else there is no retrieval to see."""


@dataclass(frozen=True)
class NeedleTexts:
    """Prompts on which the model says the sentence again.

    Attributes:
        data: the prompts, each followed by what is to be said.
        needles: what the model says of it, by example.
    """

    data: EncodedData
    needles: tuple[Needle, ...]

    def seen(self, site: str, causal: bool, batch: Batch) -> dict[str, Any] | None:  # noqa: ARG002
        """See :class:`headlens.roles.base.Source`."""
        return {"needles": tuple(self.needles[index] for index in batch.indices)} if site == "self" else None


def needle_texts(lens: Lens, *, seed: int) -> NeedleTexts | None:
    """Prompts for a model that writes; one forward pass each tells which tokens it says.

    The sentence is given to the model token by token, and a token counts where the model itself would have said it. For
    a sentence that is said whole that is the same as letting the model write.

    Returns:
        None where the model does not write, reads too little, has no tokenizer that gives offsets and knows the words,
        or says no sentence again.
    """
    tokenizer: Any = lens.tokenizer
    room = lens.max_positions or LENGTH * 2
    if lens.task != "causal-lm" or room < LEAST_POSITIONS or not getattr(tokenizer, "is_fast", False):
        return None
    rng = np.random.default_rng(seed)
    texts = [str(example.text) for example in read_builtin("essays", "score").examples]
    examples, needles = [], []
    for number, (question, answer) in enumerate(NEEDLES):
        depth = (number + 0.5) / len(NEEDLES)
        found = _prompt(lens, [texts[i] for i in rng.permutation(len(texts))], question, answer, depth, room)
        if found is None:
            return None
        ids, in_text, at_end = found
        needle = _said(lens, ids, in_text, at_end)
        if len(needle.queries) > SAID * needle.length:
            tensor = torch.tensor(ids)
            examples.append(Encoded({"input_ids": tensor, "attention_mask": torch.ones_like(tensor)}, None))
            needles.append(needle)
    if not examples:
        return None
    pad = int(getattr(tokenizer, "pad_token_id", None) or 0)
    longest = max(example.length for example in examples)
    padded = tuple(_wider(needle, longest) for needle in needles)
    return NeedleTexts(EncodedData("needles", "all", tuple(examples), pad, lens.device), padded)


def _prompt(
    lens: Lens, texts: Sequence[str], question: str, answer: str, depth: float, room: int
) -> tuple[list[int], list[int], list[int]] | None:
    """Ids, and where the answer's tokens stand in the text and at the end; None where they differ or are unknown."""
    tokenizer: Any = lens.tokenizer
    budget = min(LENGTH, room * 3 // 4)
    chosen: list[str] = []
    for text in texts:
        with TOKENIZER_LOCK:
            size = len(tokenizer(" ".join([*chosen, text]))["input_ids"])
        if size > budget:
            break
        chosen.append(text)
    place = round(depth * len(chosen))
    before, after = " ".join(chosen[:place]), " ".join(chosen[place:])
    start = f"{before} {question}".lstrip()
    middle = f"{start}{answer} {after}"
    whole = f"{middle}\n\n{question}{answer}"
    with TOKENIZER_LOCK:
        found = tokenizer(whole, return_offsets_mapping=True)
    ids = list(found["input_ids"])
    spans = [(len(start), len(start) + len(answer)), (len(whole) - len(answer), len(whole))]
    inside = [
        [i for i, (low, high) in enumerate(found["offset_mapping"]) if low < high and low >= first and high <= last]
        for first, last in spans
    ]
    unknown = getattr(tokenizer, "unk_token_id", None)
    used = [[ids[i] for i in positions] for positions in inside]
    if not used[0] or used[0] != used[1] or unknown in used[0] or len(ids) > room:
        return None
    return ids, inside[0], inside[1]


def _said(lens: Lens, ids: Sequence[int], in_text: Sequence[int], at_end: Sequence[int]) -> Needle:
    """The tokens of the sentence that the model says, and where each stands in the text."""
    inputs = {"input_ids": torch.tensor([ids]), "attention_mask": torch.ones(1, len(ids), dtype=torch.long)}
    with torch.inference_mode():
        output = lens.forward({name: value.to(lens.device) for name, value in inputs.items()}, Run())
        says = readout(output, lens.task)[0].argmax(-1).tolist()
    said = [position for position in at_end if says[position - 1] == ids[position]]
    keys = torch.zeros(len(said), len(ids), dtype=torch.bool)
    for row, position in enumerate(said):
        keys[row, [key for key in in_text if ids[key] == ids[position]]] = True
    return Needle(torch.tensor([position - 1 for position in said], dtype=torch.long), keys, len(at_end))


def _wider(needle: Needle, width: int) -> Needle:
    """The same for a batch padded to ``width`` positions."""
    more = width - needle.keys.shape[1]
    return Needle(needle.queries, torch.nn.functional.pad(needle.keys, (0, more)), needle.length)
