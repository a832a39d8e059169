"""From named columns to examples: which kind of data a table holds, and whether each row is usable."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

from headlens.data.dataset import COLUMNS, Example, Kind
from headlens.errors import DataError

MAX_CHARACTERS = 1_000_000
"""Longest single text. Tokenisers need time and memory in proportion, and only the first tokens are ever used."""

READ_COLUMNS = ("text", "text_pair", "source", "target", "label", "image")
"""All columns that mean something; others are ignored."""

_SHOWN = 8  # columns named in an error message
_SHOWN_CHARACTERS = 40


def kind_of(columns: Collection[str], where: str) -> Kind:
    """Kind of data that a table with these columns holds; a label makes texts labelled.

    Args:
        columns: names of the columns.
        where: the file, for the message.

    Raises:
        DataError: the columns are of no kind; names those found and those needed.
    """
    if "label" in columns and "image" in columns:
        return "images"
    if "label" in columns and "text" in columns:
        return "labelled"
    if "source" in columns and "target" in columns:
        return "pairs"
    if "text" in columns:
        return "text"
    found = ", ".join(shorten(name) for name in list(columns)[:_SHOWN]) + (", ..." if len(columns) > _SHOWN else "")
    needed = " | ".join(COLUMNS.values())
    raise DataError(f"{where}: columns found: {found or 'none'}; columns needed: {needed}")


def to_example(row: Mapping[str, object], kind: Kind, where: str, folder: Path) -> Example:
    """Checks one row and makes an example of it.

    Args:
        row: values by column; a column that is not there counts as null.
        kind: from :func:`kind_of`.
        where: file and row, for messages.
        folder: folder of the file, from which paths of pictures count.

    Raises:
        DataError: a value is null, empty, of the wrong type or too long, or a picture is not where it may be.
    """
    if kind == "text":
        return Example(text=_text(row, "text", where))
    if kind == "pairs":
        return Example(source=_text(row, "source", where), target=_text(row, "target", where))
    label = _label(row, where)
    if kind == "images":
        return Example(image=_image(row, where, folder), label=label)
    pair = None if row.get("text_pair") in (None, "") else _text(row, "text_pair", where)
    return Example(text=_text(row, "text", where), text_pair=pair, label=label)


def shorten(value: object) -> str:
    """A value as told in a message: on one line and not too long."""
    text = " ".join(str(value).split())
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 3] + "..."


def _text(row: Mapping[str, object], name: str, where: str) -> str:
    value = row.get(name)
    if value is None:
        raise DataError(f"{where}: {name} is missing; give it or leave the row out")
    if not isinstance(value, str):
        raise DataError(f"{where}: {name} must be text, found {type(value).__name__} {shorten(value)}")
    if not value.strip():
        raise DataError(f"{where}: {name} is empty; fill it in or leave the row out")
    if len(value) > MAX_CHARACTERS:
        raise DataError(
            f"{where}: {name} has {len(value):,} characters, more than {MAX_CHARACTERS:,}; cut it in pieces"
        )
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise DataError(
            f"{where}: {name} has half a character (a lone surrogate) at position {error.start}; repair the text"
        ) from error
    return value


def _label(row: Mapping[str, object], where: str) -> int | str:
    value = row.get("label")
    if value is None or value == "":
        raise DataError(f"{where}: label is missing; give a class number or a class name")
    if isinstance(value, bool) or not isinstance(value, int | str):
        kind = type(value).__name__
        raise DataError(f"{where}: label must be a class number or a class name, found {kind} {shorten(value)}")
    return value


def _image(row: Mapping[str, object], where: str, folder: Path) -> Path:
    """Path of a picture, inside ``folder`` also after links are followed: a data file opens nothing else."""
    name = _text(row, "image", where)
    root = folder.resolve()
    try:
        path = (root / name).resolve()
        inside = not Path(name).is_absolute() and path.is_relative_to(root)
        there = inside and path.is_file()
    except (OSError, ValueError, RuntimeError) as error:  # too long, a NUL character, a circle of links
        raise DataError(f"{where}: image {shorten(name)!r} is not a usable path") from error
    if not inside:
        raise DataError(
            f"{where}: image {shorten(name)!r} leads out of the folder of the data file; give a path relative to it"
        )
    if not there:
        raise DataError(f"{where}: there is no picture {shorten(name)!r} beside the data file")
    return path
