"""A user's data file: ``.txt``, ``.jsonl``, ``.csv``, ``.tsv`` or ``.parquet``, told apart by the ending.

Nothing is guessed and nothing is dropped silently: what cannot be used is refused with the file, the row and what to
do. Rows of CSV and TSV files count as in a spreadsheet (the header is row 1), lines of other files from 1.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from headlens.data.dataset import DataSet
from headlens.data.rows import READ_COLUMNS, kind_of, shorten, to_example
from headlens.errors import DataError

if TYPE_CHECKING:
    from pyarrow.parquet import ParquetFile

MAX_BYTES = 64 * 2**20
"""Largest file. A file is held in memory whole; measuring even a hundredth of this takes a CPU hours."""

MAX_EXAMPLES = 500_000
"""Most examples: keeps the examples of a file of very short lines within some hundred MB."""

_PARQUET_ROWS = 256  # rows decoded at a time, so that the limits are checked before memory is gone

Rows = Iterable[tuple[str, Mapping[str, object]]]
Table = tuple[tuple[str, ...], Rows]
"""Names of the columns, and each row with its place in the file."""


def read_file(path: Path) -> DataSet:
    """Reads a data file whole; its kind follows from its columns.

    Args:
        path: a file that ends in one of :data:`ENDINGS`.

    Raises:
        DataError: the file or one of its rows cannot be used; one line with the file, the row and what to do.
    """
    read = ENDINGS.get(path.suffix.lower())
    _check_file(path, known=read is not None)
    assert read is not None
    columns, rows = read(path)
    kind = kind_of(columns, str(path))
    examples = []
    for where, row in rows:
        examples.append(to_example(row, kind, f"{path}, {where}", path.parent))
        if len(examples) > MAX_EXAMPLES:
            raise DataError(f"{path}: more than {MAX_EXAMPLES:,} examples; cut the file")
    if not examples:
        raise DataError(f"{path}: the file has no examples; put at least one in")
    return DataSet(path.name, kind, "all", tuple(examples))


def read_jsonl(path: Path) -> Table:
    """One JSON object a line; blank lines are ignored."""
    # json allows U+2028 and the like inside strings, so lines end at line feeds only.
    lines = [(f"line {i + 1}", line) for i, line in enumerate(_decode(path).split("\n")) if line.strip()]
    rows = [(where, _json_object(line, f"{path}, {where}")) for where, line in lines]
    # Names in the order in which they first appear: a row that lacks one of them is told of by its line.
    return tuple(dict.fromkeys(name for _, row in rows for name in row) if rows else ["text"]), rows


def _check_file(path: Path, *, known: bool) -> None:
    try:
        if path.is_dir():
            raise DataError(f"{path} is a folder; give a data file ({', '.join(ENDINGS)})")
        if not path.exists():
            raise DataError(f"{path}: no such file; check the path")
        if not path.is_file():
            raise DataError(f"{path} is not a regular file; save the data to a file first")
        size = path.stat().st_size
    except (OSError, ValueError) as error:  # no permission, a name too long or with a NUL character
        raise _unreadable(path, error) from error
    if not known:
        raise DataError(f"{path}: unknown ending {path.suffix!r}; use one of {', '.join(ENDINGS)}")
    if size > MAX_BYTES:
        raise DataError(f"{path}: {size / 2**20:,.1f} MB is more than {MAX_BYTES / 2**20:g} MB; cut the file")


def _unreadable(path: Path, error: Exception) -> DataError:
    reason = getattr(error, "strerror", None) or str(error).partition("\n")[0]
    return DataError(f"{path}: cannot be read ({reason}); check the file and its permissions")


def _decode(path: Path) -> str:
    """Text of a file: UTF-8, with or without a byte order mark."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise _unreadable(path, error) from error
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"{path}: not UTF-8 at byte {error.start} (line {line}); save the file as UTF-8 text"
        ) from error
    if "\0" in text:
        # UTF-16 without its mark, or not text at all; pandas would cut the field there without a word.
        line = text.count("\n", 0, text.index("\0")) + 1
        raise DataError(f"{path}: NUL character in line {line}; save the file as UTF-8 text")
    return text.removeprefix("\ufeff")


def _read_txt(path: Path) -> Table:
    lines = re.split(r"\r\n|\n|\r", _decode(path))  # not at form feeds and the like, which belong to the text
    return ("text",), ((f"line {i + 1}", {"text": line}) for i, line in enumerate(lines) if line.strip())


def _json_object(line: str, where: str) -> Mapping[str, object]:
    try:
        value = json.loads(line)
    except json.JSONDecodeError as error:
        raise DataError(f"{where}: broken JSON ({error.msg}, column {error.colno}); repair the line") from error
    except (ValueError, RecursionError) as error:  # a number of thousands of digits, brackets thousands deep
        raise DataError(f"{where}: JSON that cannot be read; repair the line") from error
    if not isinstance(value, dict):
        raise DataError(f'{where}: found {shorten(line)}, needed an object such as {{"text": "..."}}')
    return value


def _read_csv(path: Path) -> Table:
    return _read_separated(path, ",")


def _read_tsv(path: Path) -> Table:
    return _read_separated(path, "\t")


def _read_separated(path: Path, separator: str) -> Table:
    import pandas as pd

    text = _decode(path)
    if not text.strip():
        raise DataError(f"{path}: the file is empty; its first row must name the columns")
    try:
        # The header is read as a row: otherwise pandas takes surplus fields for an index instead of an error.
        # All values stay text ("NA", "007"), and blank lines stay so that rows can be numbered.
        frame = pd.read_csv(
            io.StringIO(text, newline=""),
            sep=separator,
            header=None,
            dtype=str,
            na_filter=False,
            skip_blank_lines=False,
            low_memory=False,
        )
    except pd.errors.ParserError as error:
        reason = str(error).strip().removeprefix("Error tokenizing data. C error: ")
        advice = "put fields with separators or quotation marks in double quotes"
        raise DataError(f"{path}: {reason}; every row needs the columns of the first; {advice}") from error
    except pd.errors.EmptyDataError as error:
        raise DataError(f"{path}: the first line is blank; it must name the columns") from error
    header = [str(name).strip() for name in frame.iloc[0]]
    twice = [name for name in READ_COLUMNS if header.count(name) > 1]
    if twice:
        raise DataError(f"{path}: column {twice[0]} is there twice; keep one of them")
    columns = {name: frame.iloc[1:, i].tolist() for i, name in enumerate(header) if name in READ_COLUMNS}
    if "label" in columns:
        columns["label"] = _numbers(columns["label"])
    blank = (frame.iloc[1:] == "").all(axis=1).tolist()
    return tuple(header), _by_row(columns, blank)


def _by_row(columns: Mapping[str, list[object]], blank: list[bool]) -> Iterator[tuple[str, Mapping[str, object]]]:
    for i, skip in enumerate(blank):
        if not skip:
            yield f"row {i + 2}", {name: values[i] for name, values in columns.items()}


def _numbers(labels: list[object]) -> list[object]:
    """Labels as numbers when every one of them is a plain decimal number, else as they are written.

    ``007`` and ``1.0`` are no plain numbers. Empty ones stay empty (and are refused unless the whole row is blank).
    """
    if all(re.fullmatch(r"|0|-?[1-9][0-9]{0,8}", str(label)) for label in labels):
        return [int(str(label)) if label != "" else "" for label in labels]
    return labels


def _read_parquet(path: Path) -> Table:
    import pyarrow as pa
    from pyarrow.parquet import ParquetFile

    try:
        file = ParquetFile(path)
        names = tuple(file.schema_arrow.names)
        groups = [file.metadata.row_group(i) for i in range(file.metadata.num_row_groups)]
        size, count = sum(group.total_byte_size for group in groups), file.metadata.num_rows
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _broken_parquet(path, error) from error
    if size > MAX_BYTES:
        raise DataError(f"{path}: {size / 2**20:,.1f} MB unpacked, more than {MAX_BYTES / 2**20:g} MB; cut the file")
    if count > MAX_EXAMPLES:
        raise DataError(f"{path}: more than {MAX_EXAMPLES:,} examples; cut the file")
    wanted = [name for name in names if name in READ_COLUMNS]
    return names, _parquet_rows(path, file, wanted)


def _parquet_rows(path: Path, file: ParquetFile, columns: list[str]) -> Iterator[tuple[str, Mapping[str, object]]]:
    import pyarrow as pa

    number = characters = 0
    try:
        for batch in file.iter_batches(batch_size=_PARQUET_ROWS, columns=columns, use_threads=False):
            for row in batch.to_pylist():
                number += 1
                # A dictionary-packed file can unpack to far more than it says.
                characters += sum(len(value) for value in row.values() if isinstance(value, str))
                if characters > MAX_BYTES:
                    raise DataError(f"{path}: more than {MAX_BYTES:,} characters unpacked; cut the file")
                yield f"row {number}", row
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _broken_parquet(path, error) from error


def _broken_parquet(path: Path, error: Exception) -> DataError:
    reason = shorten(str(error).partition("\n")[0].partition(".")[0])
    return DataError(f"{path}: cannot be read as parquet ({reason}); write the file again")


ENDINGS: Mapping[str, Callable[[Path], Table]] = MappingProxyType(
    {".txt": _read_txt, ".jsonl": read_jsonl, ".csv": _read_csv, ".tsv": _read_tsv, ".parquet": _read_parquet}
)
"""How a file is read, by its ending (in small letters)."""
