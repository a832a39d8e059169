"""A number about a model, with its unit and the sum that gives it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from headlens.errors import HeadlensError
from headlens.interview.shape import Shape

Bind = Callable[[Shape, Mapping[str, float]], "Live"]


class NotHereError(HeadlensError):
    """The model has no such quantity: an encoder keeps no cache, say."""


@dataclass(frozen=True)
class Live:
    """A quantity of one model.

    Attributes:
        value: in ``unit``.
        unit: ``bytes``, ``parameters``, ``%``, ``heads``, ...
        sum: how it comes about, with the numbers in it.
        shape: the model that it is about.
    """

    value: float
    unit: str
    sum: str
    shape: Shape

    @property
    def text(self) -> str:
        """The value for people; bytes also in binary units."""
        return f"{number(self.value)} {self.unit}{_binary(self)}".replace(" %", " %")


@dataclass(frozen=True)
class Quantity:
    """One line of the registry: what it is, its options with their usual values, and how it is computed."""

    title: str
    compute: Bind
    options: Mapping[str, float]


def number(value: float) -> str:
    """A number as people write it: whole ones with thousands separators, others with four figures."""
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.4g}"


def _binary(live: Live) -> str:
    if live.unit != "bytes" or live.value < 1024:
        return ""
    size, units = live.value, ["KiB", "MiB", "GiB", "TiB"]
    unit = ""
    while size >= 1024 and units:
        size, unit = size / 1024, units.pop(0)
    return f" ({size:,.4g} {unit})"
