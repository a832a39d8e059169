"""What others have measured, on both sides, with source and grade; read from ``assets/lab/literature.json``."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from typing import Any

from headlens.errors import HeadlensError
from headlens.lab.shipped import folder

FILE = "literature.json"


@dataclass(frozen=True)
class Finding:
    """One published finding.

    Attributes:
        side: ``for`` (keeping is easier than learning) or ``against``.
        source, what, numbers, limits: in words.
        grade: how well the source is known, a key of ``Literature.grades``.
    """

    side: str
    source: str
    grade: str
    what: str
    numbers: str
    limits: str


@dataclass(frozen=True)
class PrunedOrScratch:
    """One row of Voita et al.'s Table 2.

    Attributes:
        data, heads: on what, and how many heads are kept (encoder/decoder/cross).
        kept: heads in all.
        pruned, scratch: BLEU.
    """

    data: str
    heads: str
    kept: int
    pruned: float
    scratch: float

    @property
    def gap(self) -> float:
        """BLEU that pruning is better than scratch; computed here."""
        return round(self.pruned - self.scratch, 2)


@dataclass(frozen=True)
class Literature:
    """Everything in the file.

    Attributes:
        grades: what each grade means.
        findings: both sides.
        voita: rows of Table 2; ``voita_about`` has source, grade and note.
        raw: the rest as it is written.
    """

    grades: dict[str, str]
    findings: tuple[Finding, ...]
    voita: tuple[PrunedOrScratch, ...]
    voita_about: dict[str, Any]
    raw: dict[str, Any]

    def side(self, name: str) -> list[Finding]:
        """Findings ``for`` or ``against``."""
        return [finding for finding in self.findings if finding.side == name]


@cache
def literature() -> Literature:
    """Reads the file; raises HeadlensError where it is missing or damaged."""
    path = folder() / FILE
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
        about = dict(raw["voita_table_2"])
        found = Literature(
            grades=raw["grades"],
            findings=tuple(Finding(**row) for row in raw["sides"]),
            voita=tuple(PrunedOrScratch(**row) for row in about.pop("rows")),
            voita_about=about,
            raw=raw,
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise HeadlensError(f"{path} is missing or damaged; get it from the repository again") from error
    return found


def gap_sentence(rows: tuple[PrunedOrScratch, ...]) -> str:
    """What Table 2 says, in numbers."""
    gaps = [row.gap for row in rows]
    better = sum(gap > 0 for gap in gaps)
    return (
        f"Pruned is better than scratch in {better} of {len(gaps)} rows, by {min(gaps):.2f} to {max(gaps):.2f} BLEU "
        f"({sum(gaps) / len(gaps):.2f} on average). One run a row, so there is no error bar."
    )
