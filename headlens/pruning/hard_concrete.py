"""The hard-concrete distribution: gates that are often exactly 0 or 1 and still have a slope.

Louizos, Welling, Kingma 2018, equations 10 to 12; temperature and stretch as in the code of Voita et al. 2019
(``lib/layers/concrete_gate.py`` of ``lena-voita/the-story-of-heads``).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

TEMPERATURE = 0.33
LOW, HIGH = -0.1, 1.1
"""Ends of the stretched distribution before it is clipped to 0..1; what lies outside becomes exactly 0 or 1."""
START = 2.0
"""First value of every parameter: gates are open (0.957 without noise, open with probability 0.94)."""
_EPSILON = 1e-6


def sampled(log_a: Tensor, noise: Tensor) -> Tensor:
    """Gates drawn from the hard-concrete distribution, in 0..1.

    Args:
        log_a: parameters ``[gates]``.
        noise: uniform in 0..1, ``[..., gates]``.
    """
    noise = noise.clamp(_EPSILON, 1 - _EPSILON)
    concrete = ((noise.log() - (1 - noise).log() + log_a) / TEMPERATURE).sigmoid()
    return (concrete * (HIGH - LOW) + LOW).clamp(0, 1)


def settled(log_a: Tensor) -> Tensor:
    """Gates without noise, in 0..1: what is used after training."""
    return (log_a.sigmoid() * (HIGH - LOW) + LOW).clamp(0, 1)


def open_probability(log_a: Tensor) -> Tensor:
    """Probability that a drawn gate is not 0; the sum over gates is the expected L0 norm."""
    return (log_a - TEMPERATURE * math.log(-LOW / HIGH)).sigmoid()
