"""What every part of the bank is made of: cited statements, topics, levels. Unknown keys are refused.

Every statement of fact names its source and how well we know it (:data:`GRADES`).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=2000)]
Id = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$", max_length=60)]
Grade = Literal["P", "N", "A", "W", "D", "M"]
GRADES: Mapping[str, str] = MappingProxyType(
    {
        "P": "read in the paper, code or data itself",
        "N": "from detailed notes that quote the paper's pages and tables",
        "A": "only the abstract or the official README was read",
        "W": "weak: a blog or unreviewed work",
        "D": "follows by arithmetic from published figures or definitions",
        "M": "measured with HeadLens; the command is in this repository",
    }
)
Topic = Literal[
    "redundancy",
    "training",
    "scores",
    "ablation",
    "roles",
    "sharing",
    "cache",
    "low-rank",
    "speed",
    "evaluation",
]
TOPICS: Mapping[str, str] = MappingProxyType(
    {
        "redundancy": "Head redundancy",
        "training": "Training large, then pruning",
        "scores": "Importance scores",
        "ablation": "Pitfalls of ablation",
        "roles": "What heads do",
        "sharing": "GQA, MQA and MLA",
        "cache": "Key/value cache arithmetic",
        "low-rank": "Low-rank bottleneck",
        "speed": "Speed and size",
        "evaluation": "Honest evaluation",
    }
)
Level = Annotated[int, Field(ge=1, le=3)]
LEVELS: Mapping[int, str] = MappingProxyType({1: "Basic", 2: "Solid", 3: "Senior"})


class Strict(BaseModel):
    """Frozen; unknown keys are mistakes."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Source(Strict):
    """A work that is cited; ``link`` is where it can be read, ``year`` is left out where it is no publication."""

    who: Text
    year: Annotated[int, Field(ge=1980, le=2100)] | None = None
    title: Text
    where: Text
    link: Annotated[str, StringConstraints(pattern=r"^https://\S+$")] | None = None


class Cite(Strict):
    """Where in which source, and how well we know it."""

    id: Id
    at: Text | None = None
    grade: Grade


Cites = Annotated[tuple[Cite, ...], Field(min_length=1)]


class Statement(Strict):
    """One statement of fact."""

    text: Text
    sources: Cites
    claim: Id | None = None


class SourceFile(Strict):
    """``sources.yaml``."""

    sources: Mapping[Id, Source]
