"""The text around the main question, as it is written in ``assets/interview/main.yaml``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from headlens.interview.schema import Cite, Cites, Id, Statement, Strict, Text


class Term(Strict):
    """A key concept: the word, what it means, and its formula (LaTeX) where it has one."""

    term: Text
    meaning: Text
    sources: Cites
    formula: Text | None = None


class Flag(Strict):
    """A phrase that sounds junior, why, and what to say instead."""

    phrase: Text
    why: Text
    instead: Text
    sources: Cites


class Case(Strict):
    """Where the answer stops working: the case, what was found, what to do about it."""

    case: Text
    found: Statement
    so: Text


class Use(Strict):
    """A product or line of research that uses the idea."""

    name: Text
    what: Statement


class Step(Strict):
    """One step of the worked example: words and, where it has one, a formula (LaTeX)."""

    text: Text
    sources: Cites
    formula: Text | None = None


class Sheet(Strict):
    """One box of the cheat sheet."""

    title: Text
    lines: Annotated[tuple[Statement, ...], Field(min_length=1)]


class Main(Strict):
    """Everything on the page around the main question."""

    question: Id
    short: Text
    short_sources: Cites
    memory_title: Text
    memory: Text
    memory_alt: Text
    one_minute: Annotated[tuple[Statement, ...], Field(min_length=3)]
    long: Annotated[tuple[Statement, ...], Field(min_length=4)]
    stops: Annotated[tuple[Case, ...], Field(min_length=4)]
    senior: Annotated[tuple[Statement, ...], Field(min_length=3)]
    example: Annotated[tuple[Step, ...], Field(min_length=3)]
    basics: Annotated[tuple[Term, ...], Field(min_length=6)]
    concepts: Annotated[tuple[Term, ...], Field(min_length=6)]
    in_use: Annotated[tuple[Use, ...], Field(min_length=5)]
    flags: Annotated[tuple[Flag, ...], Field(min_length=5)]
    sheet: Annotated[tuple[Sheet, ...], Field(min_length=4)]

    def cites(self) -> tuple[Cite, ...]:
        """Every citation on the page."""
        return tuple(_cites(self.model_dump()))


def _cites(value: Any) -> list[Cite]:
    """Citations anywhere inside dumped data."""
    if isinstance(value, Mapping):
        if set(value) == set(Cite.model_fields):
            return [Cite.model_validate(value)]
        return [cite for item in value.values() for cite in _cites(item)]
    if isinstance(value, (list, tuple)):
        return [cite for item in value for cite in _cites(item)]
    return []
