"""Random tokens that come a second time: only a model that finds the first time knows what comes next."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from headlens.errors import HeadlensError
from headlens.probes.encode import NO_GAP
from headlens.probes.pairs import Row, Rows
from headlens.roles.blocks import end_ids, front_ids, ordinary_ids

if TYPE_CHECKING:
    from headlens.lens import Lens

BLOCK = 20
"""Different tokens in a sequence; fewer where the model reads less."""
SHORTEST = 4
ENCODER_DECODER = "made for models with one stack"


def repeat_rows(lens: Lens, count: int, *, seed: int) -> Rows:
    """``count`` sequences of random tokens, each of which comes again up to a place drawn at random.

    The right answer is the token that comes next in the first copy, the foil one that comes later in it: both have come
    once, so that neither how common a token is, nor how often it came, says anything. The first tokens of the second
    copy are never asked for: the model could not know yet that it is one. Models that fill gaps get the second copy
    whole, with a gap; for them any other token of the sequence may be the foil.

    Raises:
        HeadlensError: the model takes no tokens.
    """
    if not lens.accepts("input_ids"):
        raise HeadlensError(f"{lens.name} takes no tokens, so it cannot repeat any; use a model that reads text")
    masked = lens.task == "masked-lm"
    mask: Any = getattr(lens.tokenizer, "mask_token_id", None)
    if lens.task == "seq2seq":
        return Rows((), {ENCODER_DECODER: count})
    if masked and mask is None:
        return Rows((), {NO_GAP: count})
    front, end, ordinary = front_ids(lens), end_ids(lens) if masked else [], ordinary_ids(lens)
    longest = lens.max_positions or 2 * BLOCK + len(front) + len(end)
    block = min(BLOCK, (longest - len(front) - len(end)) // 2, len(ordinary))
    if block < SHORTEST:
        return Rows((), {f"room for fewer than {SHORTEST} different tokens": count})
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(count):
        first = rng.choice(ordinary, block, replace=False).tolist()
        place = int(rng.integers(SHORTEST // 2, block - 1))
        foil = int(rng.choice([*first[:place], *first[place + 1 :]] if masked else first[place + 1 :]))
        second = [*first[:place], int(mask), *first[place + 1 :]] if masked else first[:place]
        ids = torch.tensor([*front, *first, *second, *end])
        position = len(front) + block + place - (not masked)
        rows.append(Row({"input_ids": ids, "attention_mask": torch.ones_like(ids)}, position, first[place], foil))
    return Rows(tuple(rows), {})
