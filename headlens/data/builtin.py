"""The data sets that come with HeadLens: what there is, and their two halves."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from headlens import paths
from headlens.data.dataset import KINDS, DataSet, Example, Kind, Split
from headlens.data.readers import read_jsonl
from headlens.data.rows import to_example
from headlens.errors import DataError

_PIECE = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True)
class SetInfo:
    """One built-in set, as its entry in ``assets/data/index.json`` says.

    Attributes:
        name: as on the command line.
        file: file in ``assets/data``.
        task: kind of its examples.
        language: language code, two with a hyphen for translations, a programming language, or empty for pictures.
        title: as shown.
        description: what is in it, in a sentence.
    """

    name: str
    file: str
    task: Kind
    language: str
    title: str
    description: str

    @property
    def tasks(self) -> tuple[str, ...]:
        """Tasks of models that take this set."""
        return tuple(task for task, kinds in KINDS.items() if self.task in kinds)


def index() -> tuple[SetInfo, ...]:
    """The built-in sets in their order; the first that fits a task is its default."""
    text = (paths.asset_dir() / "data" / "index.json").read_text(encoding="utf-8")
    return tuple(SetInfo(**entry) for entry in json.loads(text))


def read_builtin(name: str, split: Split) -> DataSet:
    """Reads the ``score`` half, the ``held-out`` half or both (``all``) of a built-in set, in file order.

    Raises:
        DataError: there is no set of this name.
    """
    found = next((entry for entry in index() if entry.name == name), None)
    if found is None:
        raise DataError(f"no built-in set {name!r}; there are {', '.join(entry.name for entry in index())}")
    path = paths.asset_dir() / "data" / found.file
    _, rows = read_jsonl(path)
    examples = tuple(
        to_example(row, found.task, f"{path}, {where}", path.parent)
        for where, row in rows
        if split in ("all", row["split"])
    )
    return DataSet(name, found.task, split, examples, built_in=True)


def default_set(task: str) -> str:
    """Name of the first built-in set that models of this task take.

    Raises:
        DataError: there is none; says to pass a file, where that helps.
    """
    kinds = KINDS.get(task)
    if kinds is None:
        raise DataError(
            f"{task} models take no data here; their heads can be switched, and scored by --method magnitude"
        )
    for entry in index():
        if entry.task in kinds:
            return entry.name
    columns = "image,label" if kinds == ("images",) else "the columns of its task"
    raise DataError(f"there is no built-in set for {task} models; pass a file with {columns}: --data FILE")


def describe_sets() -> list[dict[str, Any]]:
    """Rows of ``headlens data``: name, title, task (kind of the examples), model tasks, sizes of both halves, tokens.

    ``tokens`` is a rough count that needs no tokenizer: runs of letters, digits and underscores, and each other mark
    that is not a space, over both halves (source and target both count). Subword tokenizers give some more.
    """
    rows = []
    for entry in index():
        halves = {split: read_builtin(entry.name, split).examples for split in ("score", "held-out")}
        rows.append(
            {
                "name": entry.name,
                "title": entry.title,
                "task": entry.task,
                "tasks": list(entry.tasks),
                "language": entry.language,
                "splits": {split: len(examples) for split, examples in halves.items()},
                "tokens": sum(_pieces(examples) for examples in halves.values()),
                "description": entry.description,
            }
        )
    return rows


def _pieces(examples: Iterable[Example]) -> int:
    texts = (text for e in examples for text in (e.text, e.text_pair, e.source, e.target) if text is not None)
    return sum(len(_PIECE.findall(text)) for text in texts)
