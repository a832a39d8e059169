"""The pairs of texts that come with HeadLens: ``assets/probes/index.json`` and one ``.jsonl`` file a skill."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache

from headlens import paths
from headlens.probes.pairs import Pair


@dataclass(frozen=True)
class TextInfo:
    """One entry of the index; the fields are those of :class:`headlens.probes.skills.Skill`, and the file's name."""

    name: str
    file: str
    title: str
    ability: str
    description: str


@cache
def index() -> tuple[TextInfo, ...]:
    """The skills that have a file, in the order in which they are shown."""
    text = (paths.asset_dir() / "probes" / "index.json").read_text(encoding="utf-8")
    return tuple(TextInfo(**entry) for entry in json.loads(text))


@cache
def read_pairs(file: str) -> tuple[Pair, ...]:
    """The pairs of a file, in its order."""
    lines = (paths.asset_dir() / "probes" / file).read_text(encoding="utf-8").splitlines()
    return tuple(Pair(**json.loads(line)) for line in lines if line.strip())
