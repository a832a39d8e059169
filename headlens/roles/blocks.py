"""Random blocks of tokens, repeated: data on which only a copying head can do anything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from headlens.data.batch import Encoded, EncodedData
from headlens.roles.base import Repeat

if TYPE_CHECKING:
    from headlens.data.batch import Batch
    from headlens.lens import Lens

EXAMPLES = 10
EDGE = 0.04
"""Share of the vocabulary that is left out at each end: vocabularies are roughly ordered from common to rare (Bansal et
al. 2022 leave out the 4 % most and least frequent tokens)."""


@dataclass(frozen=True)
class Blocks:
    """Repeated blocks for one model; ``repeat`` says where they stand, by side (``encoder`` or ``decoder``)."""

    data: EncodedData
    repeat: Mapping[str, Repeat]

    def of(self, site: str) -> Repeat:
        """How the tokens of a site repeat."""
        return self.repeat["decoder" if site in ("dec", "cross") else "encoder"]

    def seen(self, site: str, causal: bool, batch: Batch) -> dict[str, Any] | None:  # noqa: ARG002
        """See :class:`headlens.roles.base.Source`."""
        return {"repeat": self.of(site)}


def repeated_blocks(lens: Lens, block: int, times: int, *, seed: int) -> Blocks | None:
    """Ten examples, each a block of ``block`` different random tokens, ``times`` times.

    A start token stands in front where the model knows one. Blocks are shorter where the model has fewer positions or a
    small vocabulary; None where nothing of the kind can be made (pictures, sound, fewer than four tokens).
    """
    if not lens.accepts("input_ids") or lens.vocabulary < 4:
        return None
    ordinary = ordinary_ids(lens)
    longest = lens.max_positions or block * times + 1
    block = min(block, (longest - 1) // times, len(ordinary))
    if block < 2:
        return None
    front = front_ids(lens)
    rng = np.random.default_rng(seed)
    examples = []
    for _ in range(EXAMPLES):
        ids = torch.from_numpy(np.tile(rng.choice(ordinary, block, replace=False), times))
        source = torch.cat([torch.tensor(front, dtype=torch.long), ids])
        inputs = {"input_ids": source, "attention_mask": torch.ones_like(source)}
        if lens.accepts("decoder_input_ids"):
            target = torch.cat([lens.shift_right(torch.zeros(1, dtype=torch.long)), ids])
            inputs |= {"decoder_input_ids": target, "decoder_attention_mask": torch.ones_like(target)}
        examples.append(Encoded(inputs, None))
    repeat = {"encoder": Repeat(len(front), block, times), "decoder": Repeat(1, block, times)}
    return Blocks(EncodedData("random blocks", "all", tuple(examples), 0, lens.device), repeat)


def ordinary_ids(lens: Lens) -> np.ndarray:
    """Ids from which random tokens are drawn: neither special nor at the edges of the vocabulary, int64 ``[ids]``."""
    special = set(getattr(lens.tokenizer, "all_special_ids", []))
    low, high = int(EDGE * lens.vocabulary), lens.vocabulary - int(EDGE * lens.vocabulary)
    return np.array([i for i in range(low, high) if i not in special], dtype=np.int64)


def front_ids(lens: Lens) -> list[int]:
    """The token that a text begins with, if the tokenizer knows one."""
    return _first_known(lens, "bos_token_id", "cls_token_id")


def end_ids(lens: Lens) -> list[int]:
    """The token that a text ends with, if the tokenizer knows one."""
    return _first_known(lens, "sep_token_id", "eos_token_id")


def _first_known(lens: Lens, *names: str) -> list[int]:
    for name in names:
        found = getattr(lens.tokenizer, name, None)
        if found is not None:
            return [int(found)]
    return []
