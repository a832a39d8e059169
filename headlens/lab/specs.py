"""What a run of the lab is: task, model, training, and what is done with the trained model. No torch here."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Literal, cast, get_args

from headlens.errors import HeadlensError
from headlens.store import unit_key

LAB_VERSION = 1
"""Part of every stored run's key. Raise it when the numbers change."""

DISTANCES = (1, 4, 8, 13)
MAX_CLASSES = 4096
"""Up to so many combinations the read-out names the whole combination, beyond it each distance's symbol apart."""

Shape = Literal["llama", "qwen3"]
SHAPES: tuple[Shape, ...] = get_args(Shape)
AfterKind = Literal["continued", "pruned", "random", "ticket"]
AFTER_KINDS: tuple[AfterKind, ...] = get_args(AfterKind)


def _whole(what: str, value: object, low: int, high: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise HeadlensError(f"{what} is {value}; give a whole number from {low} to {high}")


@dataclass(frozen=True)
class Task:
    """Random symbols; the target at a position is the combination of the symbols at ``distances`` back.

    Attributes:
        distances: how far back the symbols are that make the target, in tokens.
        symbols: size of the alphabet (2: bits).
        length: tokens of a sequence. Positions before the longest distance are not scored.
    """

    distances: tuple[int, ...] = DISTANCES
    symbols: int = 2
    length: int = 32

    def __post_init__(self) -> None:
        _whole("the length of a sequence", self.length, 4, 256)
        _whole("the number of symbols", self.symbols, 2, 64)
        if not self.distances:
            raise HeadlensError("there is no distance; give some, for example 1,4,8,13")
        for distance in self.distances:
            if isinstance(distance, bool) or not isinstance(distance, int) or not 1 <= distance < self.length:
                raise HeadlensError(
                    f"distance {distance} is not in the sequence; "
                    f"with {self.length} tokens distances go from 1 to {self.length - 1}"
                )
        if len(set(self.distances)) < len(self.distances):
            raise HeadlensError(f"a distance is named twice in {','.join(map(str, self.distances))}; name each once")
        if len(self.distances) > 16:
            raise HeadlensError(f"there are {len(self.distances)} distances; give at most 16")

    @property
    def first(self) -> int:
        """The first scored position."""
        return max(self.distances)

    @property
    def positions(self) -> int:
        """Scored positions of a sequence."""
        return self.length - self.first

    @property
    def even(self) -> float:
        """What even attention gives each token, on average over scored positions."""
        return sum(1 / (position + 1) for position in range(self.first, self.length)) / self.positions

    @property
    def joint(self) -> bool:
        """Whether the read-out names the whole combination (one class each), not each symbol apart."""
        return self.symbols ** len(self.distances) <= MAX_CLASSES

    @property
    def outputs(self) -> int:
        """Outputs of the read-out."""
        parts = len(self.distances)
        return self.symbols**parts if self.joint else self.symbols * parts

    @property
    def bits_a_distance(self) -> float:
        """What one symbol is worth: the loss in bits of not knowing it."""
        return math.log2(self.symbols)

    @property
    def guessing(self) -> float:
        """Loss in bits of guessing."""
        return self.bits_a_distance * len(self.distances)


@dataclass(frozen=True)
class Architecture:
    """A one-layer decoder and its linear read-out; every head has its own keys and values.

    Attributes:
        heads: attention heads.
        shape: ``llama``, or ``qwen3``, which normalises queries and keys.
        d_head: width of a head, whatever their number.
        width: of the residual stream.
        mlp: hidden width of the MLP.
    """

    heads: int
    shape: Shape = "llama"
    d_head: int = 8
    width: int = 64
    mlp: int = 128

    def __post_init__(self) -> None:
        _whole("the number of heads", self.heads, 1, 64)
        _whole("the width of a head", self.d_head, 2, 256)
        _whole("the width of the model", self.width, 8, 512)
        _whole("the width of the MLP", self.mlp, 1, 4096)
        if self.d_head % 2:
            raise HeadlensError(f"the width of a head is {self.d_head}; rotary positions need an even number")
        if self.shape not in SHAPES:
            raise HeadlensError(f"unknown shape {self.shape!r}; choose one of {', '.join(SHAPES)}")


@dataclass(frozen=True)
class Training:
    """AdamW without weight decay, one cycle of the learning rate up to ``learning_rate`` and down again.

    Attributes:
        steps: optimiser steps.
        batch: sequences a step; every one is new.
        learning_rate: the peak.
        seed: of the initial weights and of the training sequences.
    """

    steps: int = 600
    batch: int = 64
    learning_rate: float = 3e-3
    seed: int = 0

    def __post_init__(self) -> None:
        _whole("the number of steps", self.steps, 2, 1_000_000)
        _whole("the batch", self.batch, 1, 4096)
        _whole("the seed", self.seed, 0, 2**31 - 1)
        rate = self.learning_rate
        if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 < rate <= 1:
            raise HeadlensError(f"the learning rate is {rate}; give a number above 0, at most 1")


@dataclass(frozen=True)
class After:
    """What is done with a trained model.

    Attributes:
        kind: ``continued``: trained on as it is. ``pruned``: cut to the heads that greedy pruning keeps, then trained
            on. ``random``: cut to random heads, then trained on. ``ticket``: the heads that greedy pruning keeps, with
            the weights that they and everything else had before training, trained anew (the lottery ticket).
        heads: how many heads are kept (``continued``: all).
        steps, learning_rate: of the further training, one more cycle.
    """

    kind: AfterKind
    heads: int
    steps: int
    learning_rate: float

    def __post_init__(self) -> None:
        if self.kind not in AFTER_KINDS:
            raise HeadlensError(f"unknown kind {self.kind!r}; choose one of {', '.join(AFTER_KINDS)}")
        _whole("the number of heads that are kept", self.heads, 1, 64)
        Training(self.steps, learning_rate=self.learning_rate)


@dataclass(frozen=True)
class RunSpec:
    """One run: a model trained from scratch, or (``after``) what is made of it.

    Attributes:
        task, architecture, training: what is trained and how.
        prune_to: heads that pruning without retraining keeps; None where there is nothing to prune.
        checkpoints: whether the prunable share of heads is measured along the training too.
        after: what is done with the trained model; None for the run from scratch itself.
    """

    task: Task
    architecture: Architecture
    training: Training = field(default_factory=Training)
    prune_to: int | None = None
    checkpoints: bool = False
    after: After | None = None

    def __post_init__(self) -> None:
        heads = self.architecture.heads
        if self.prune_to is not None:
            _whole("the number of heads to prune to", self.prune_to, 1, heads)
        if self.after is not None and self.after.heads > heads:
            raise HeadlensError(f"{self.after.heads} of {heads} heads cannot be kept; keep at most {heads}")

    @property
    def steps(self) -> int:
        """Steps of this run alone (of the further training, where it is one)."""
        return self.training.steps if self.after is None else self.after.steps

    @property
    def parent(self) -> RunSpec | None:
        """The run from scratch that this one starts from, or None."""
        return None if self.after is None else replace(self, after=None, prune_to=None, checkpoints=False)

    def to_dict(self) -> dict[str, Any]:
        """Plain types, which :meth:`from_dict` reads back."""
        return asdict(self)

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> RunSpec:
        """The run that :meth:`to_dict` wrote."""
        after = plain["after"]
        task = {**plain["task"], "distances": tuple(plain["task"]["distances"])}
        rest = {f.name: plain[f.name] for f in fields(cls) if f.name in ("prune_to", "checkpoints")}
        return cls(
            Task(**task),
            Architecture(**plain["architecture"]),
            Training(**plain["training"]),
            after=None if after is None else After(**after),
            **rest,
        )

    def key(self, versions: Mapping[str, str]) -> str:
        """The store's key of this run; ``versions`` are those of the libraries that compute it."""
        return unit_key(lab=LAB_VERSION, run=self.to_dict(), versions=dict(versions))


def as_shape(name: str) -> Shape:
    """Checks a shape's name; raises HeadlensError."""
    if name not in SHAPES:
        raise HeadlensError(f"unknown shape {name!r}; choose one of {', '.join(SHAPES)}")
    return cast(Shape, name)


def numbers(text: str, what: str) -> tuple[int, ...]:
    """Reads ``4,8,16``; raises HeadlensError naming ``what``."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and len(part) < 8 for part in parts):
        raise HeadlensError(f"{what} {text[:60]!r} is not a list of whole numbers; write for example 4,8,16")
    return tuple(int(part) for part in parts)
