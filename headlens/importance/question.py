"""A question about a ranking of heads, and how intervals answer it: which are the top K, which the bottom share?"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

import numpy as np

from headlens.errors import HeadlensError


@dataclass(frozen=True)
class Question:
    """Attributes:
    end: which end of the ranking.
    size: how many heads (``top``) or which share of them (``bottom``).
    """

    end: Literal["top", "bottom"]
    size: float

    def count(self, heads: int) -> int:
        """How many of ``heads`` heads the answer has; raises HeadlensError where that is none or all."""
        from headlens.pruning.order import count_for

        count = int(self.size) if self.end == "top" else count_for(self.size, heads)
        if not 0 < count < heads:
            raise HeadlensError(f"--question {self}: that is {count} of {heads} heads; ask for more than none, not all")
        return count

    def __str__(self) -> str:
        return f"{self.end}:{self.size:g}"


def parse_question(text: str) -> Question:
    """``top:10`` (a number of heads) or ``bottom:0.3`` (a share of them); raises HeadlensError."""
    top, bottom = re.fullmatch(r"top:([1-9]\d{0,8})", text), re.fullmatch(r"bottom:(0?\.\d+)", text)
    if top is not None:
        return Question("top", int(top[1]))
    if bottom is not None and float(bottom[1]) > 0:
        return Question("bottom", float(bottom[1]))
    raise HeadlensError(f"--question {text!r}: give top:K, such as top:10, or bottom:FRACTION, such as bottom:0.3")


def settled(low: np.ndarray, high: np.ndarray, top: int) -> tuple[np.ndarray, np.ndarray]:
    """Which heads are among the ``top`` largest whatever value each has in its interval, and which are not.

    Args:
        low, high: intervals, ``[heads]`` each.
        top: how many are asked for.

    Returns:
        Two bool arrays ``[heads]``: certainly in, certainly out.
    """
    may_be_above = (high[None, :] > low[:, None]).sum(1) - (high > low)  # the head itself is not above itself
    is_above = (low[None, :] > high[:, None]).sum(1)
    return may_be_above < top, is_above >= top


def nearest_first(low: np.ndarray, high: np.ndarray, top: int, open_: np.ndarray) -> np.ndarray:
    """Positions of the open heads, those first whose interval's middle is nearest to the cut, ``[open]``."""
    middle = (low + high) / 2
    ranked = np.sort(middle)[::-1]
    cut = (ranked[top - 1] + ranked[top]) / 2
    positions = np.flatnonzero(open_)
    return positions[np.argsort(np.abs(middle[positions] - cut), kind="stable")]
