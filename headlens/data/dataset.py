"""A data set before tokenisation: examples, and where they come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Literal

Kind = Literal["text", "pairs", "labelled", "images"]
Split = Literal["score", "held-out", "all"]

COLUMNS: Mapping[Kind, str] = MappingProxyType(
    {"text": "text", "pairs": "source,target", "labelled": "text[,text_pair],label", "images": "image,label"}
)
"""The columns that hold each kind of data, as told to users."""

KINDS: Mapping[str, tuple[Kind, ...]] = MappingProxyType(
    {
        "causal-lm": ("text",),
        "masked-lm": ("text",),
        "embedding": ("text",),
        "seq2seq": ("pairs",),
        "text-classification": ("labelled",),
        "image-classification": ("images",),
    }
)
"""Which kinds of data each model task takes."""


@dataclass(frozen=True, slots=True)
class Example:
    """One example; which fields are set depends on the kind of the data set.

    ``text`` | ``source`` and ``target`` | ``text`` (and ``text_pair``) with ``label`` | ``image`` with ``label``.
    ``label`` is a class number or the name of a class.
    """

    text: str | None = None
    text_pair: str | None = None
    source: str | None = None
    target: str | None = None
    label: int | str | None = None
    image: Path | None = None


@dataclass(frozen=True)
class DataSet:
    """Examples of one kind.

    Attributes:
        name: name of the built-in set, or of the file.
        kind: which fields the examples have.
        split: which part of the set this is.
        examples: the examples, in file order.
        built_in: shipped with HeadLens (and therefore split into a score and a held-out half).
    """

    name: str
    kind: Kind
    split: Split
    examples: tuple[Example, ...]
    built_in: bool = False
