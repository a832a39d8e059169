"""What a question is, as it is written in ``assets/interview/*.yaml``."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Literal

from pydantic import Field, model_validator

from headlens.interview.schema import Cites, Id, Level, Strict, Text, Topic


class Option(Strict):
    """One answer to choose, and why it is right or wrong."""

    text: Text
    why: Text
    right: bool = False


class Item(Strict):
    """One thing to put in order, and why it stands there."""

    text: Text
    why: Text


class Point(Strict):
    """One point of a rubric; a good answer has all that ``must`` be there."""

    text: Text
    must: bool = False


class Slip(Strict):
    """A usual mistake in a number: the answer is off by ``factor``, or is another quantity."""

    say: Text
    factor: float | None = None
    quantity: str | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> Slip:
        if (self.factor is None) == (self.quantity is None):
            raise ValueError("a slip has either a factor or a quantity")
        return self


class _Question(Strict):
    """What all kinds have.

    Attributes:
        id: unique, for life: the learner's progress refers to it.
        ask: the question. In numbers it may name ``{model}``, ``{layers}``, ``{heads}``, ``{kv_heads}``, ``{d_head}``,
            ``{d_model}``, and in words ``{head}``, ``{attention}`` and ``{cache}``: see :meth:`Shape.facts`. It says
            everything that the answer takes.
        explain: the answer in full, shown afterwards.
        follow_ups: what an interviewer asks next, the likeliest first.
        claim: id of the check that measures this on the current model.
    """

    id: Id
    topic: Topic
    level: Level
    ask: Text
    explain: Text
    sources: Cites
    follow_ups: tuple[Id, ...] = ()
    claim: Id | None = None


class Choice(_Question):
    """Exactly one option is right."""

    kind: Literal["choice"]
    options: Annotated[tuple[Option, ...], Field(min_length=3, max_length=6)]

    @model_validator(mode="after")
    def _one_key(self) -> Choice:
        if sum(option.right for option in self.options) != 1:
            raise ValueError("exactly one option must be right")
        return self

    @property
    def key(self) -> int:
        """Number of the right option."""
        return next(number for number, option in enumerate(self.options) if option.right)


class ChooseAll(_Question):
    """Any number of options are right, at least one and not all."""

    kind: Literal["all"]
    options: Annotated[tuple[Option, ...], Field(min_length=3, max_length=8)]

    @model_validator(mode="after")
    def _some_keys(self) -> ChooseAll:
        if not 0 < len(self.keys) < len(self.options):
            raise ValueError("at least one option must be right and one wrong")
        return self

    @property
    def keys(self) -> frozenset[int]:
        """Numbers of the right options."""
        return frozenset(number for number, option in enumerate(self.options) if option.right)


class Order(_Question):
    """Things to put in order; ``items`` stand in the right one."""

    kind: Literal["order"]
    first: Text
    last: Text
    items: Annotated[tuple[Item, ...], Field(min_length=3, max_length=6)]


class Number(_Question):
    """A number computed from the model in front of the learner.

    Attributes:
        quantity: name in :data:`headlens.interview.quantities.QUANTITIES`.
        options: the quantity's own options, for example ``{tokens: 4096}``.
        tolerance: relative; 0 wants the exact whole number.
    """

    kind: Literal["number"]
    quantity: str
    options: Mapping[str, float] = Field(default_factory=dict)
    tolerance: Annotated[float, Field(ge=0, le=0.2)] = 0.02
    slips: tuple[Slip, ...] = ()


class Predict(_Question):
    """Commit to a prediction, then have it measured on the live set.

    ``pick`` says which heads: ``depths`` (one from the first, middle and last layer), ``sizes`` (largest, median and
    smallest output weights), ``neighbours`` (three of one layer), ``pair`` (is the joint effect of two heads the sum of
    their single effects?).
    """

    kind: Literal["predict"]
    pick: Literal["depths", "sizes", "neighbours", "pair"]


class Free(_Question):
    """Answered in the learner's own words; the learner ticks the points that were in it."""

    kind: Literal["free"]
    points: Annotated[tuple[Point, ...], Field(min_length=3, max_length=9)]
    model_answer: Text

    @model_validator(mode="after")
    def _has_musts(self) -> Free:
        if not any(point.must for point in self.points):
            raise ValueError("at least one point must be needed")
        return self


Question = Annotated[Choice | ChooseAll | Order | Number | Predict | Free, Field(discriminator="kind")]
KINDS: Mapping[str, str] = MappingProxyType(
    {
        "choice": "choose one",
        "all": "choose all that apply",
        "order": "put in order",
        "number": "work out a number",
        "predict": "predict, then measure",
        "free": "say it in your own words",
    }
)


class QuestionFile(Strict):
    """One file of the bank."""

    questions: tuple[Question, ...]
