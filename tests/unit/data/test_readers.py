"""Data files: what other programs write is read back equal, and every unusable file is told of in one line."""

from __future__ import annotations

import csv
import io
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headlens.data import readers
from headlens.data.dataset import Example
from headlens.data.readers import read_file
from headlens.errors import DataError

ANY = st.text(st.characters(blacklist_categories=["Cs"]), min_size=1, max_size=30).filter(lambda t: t.strip())
WITHOUT_NUL = ANY.filter(lambda t: "\0" not in t)
LINE = WITHOUT_NUL.filter(lambda t: "\n" not in t and "\r" not in t)
LABELS = st.one_of(st.lists(st.integers(-5, 10**6), min_size=5, max_size=5), st.lists(LINE, min_size=5, max_size=5))
ROWS = 5


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def write_csv(path: Path, rows: list[dict[str, Any]], **options: Any) -> Path:
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, list(rows[0]), **options)
        writer.writeheader()
        writer.writerows(rows)
    return path


def write_jsonl(path: Path, rows: list[dict[str, Any]], *, ascii_only: bool = False) -> Path:
    path.write_bytes("".join(json.dumps(row, ensure_ascii=ascii_only) + "\n" for row in rows).encode())
    return path


def write_parquet(path: Path, rows: list[dict[str, Any]]) -> Path:
    pd.DataFrame(rows).to_parquet(path, engine="pyarrow")
    return path


def labels_as_read(labels: list[int | str]) -> list[int | str]:
    """CSV has no types: a column of whole numbers is read as numbers."""
    plain = all(str(label).isascii() and _canonical(str(label)) for label in labels)
    return [int(label) for label in labels] if plain else [str(label) for label in labels]


def _canonical(text: str) -> bool:
    try:
        return str(int(text)) == text
    except ValueError:
        return False


class TestRoundTrips:
    @settings(max_examples=60, deadline=None)
    @given(st.lists(LINE, min_size=1, max_size=6), st.sampled_from(["\n", "\r\n", "\r"]), st.booleans())
    def test_txt(self, folder: Path, texts: list[str], end: str, mark: bool) -> None:
        path = folder / "a.txt"
        blank = f"{end}  {end}{end}"
        path.write_bytes((end + blank.join(texts) + end).encode("utf-8-sig" if mark else "utf-8"))
        data = read_file(path)
        assert [e.text for e in data.examples] == texts
        assert (data.name, data.kind, data.split, data.built_in) == ("a.txt", "text", "all", False)

    @settings(max_examples=60, deadline=None)
    @given(st.lists(st.tuples(ANY, ANY), min_size=1, max_size=6), st.booleans())
    def test_jsonl_pairs(self, folder: Path, pairs: list[tuple[str, str]], ascii_only: bool) -> None:
        rows = [{"source": s, "target": t, "other": [1, None]} for s, t in pairs]
        data = read_file(write_jsonl(folder / "a.jsonl", rows, ascii_only=ascii_only))
        assert data.kind == "pairs"
        assert data.examples == tuple(Example(source=s, target=t) for s, t in pairs)

    @settings(max_examples=80, deadline=None)
    @given(
        st.lists(st.tuples(WITHOUT_NUL, WITHOUT_NUL), min_size=ROWS, max_size=ROWS),
        LABELS,
        st.sampled_from([".csv", ".tsv"]),
        # The csv module does not quote a lone \r with line ends of \n, which no reader can undo.
        st.sampled_from([(csv.QUOTE_ALL, "\n"), (csv.QUOTE_ALL, "\r\n"), (csv.QUOTE_MINIMAL, "\r\n")]),
    )
    def test_separated(
        self, folder: Path, texts: list[tuple[str, str]], labels: list[int | str], end: str, form: tuple[Any, str]
    ) -> None:
        rows = [{"text": a, "label": y, "text_pair": b} for (a, b), y in zip(texts, labels, strict=True)]
        separator = "\t" if end == ".tsv" else ","
        options = {"delimiter": separator, "quoting": form[0], "lineterminator": form[1]}
        data = read_file(write_csv(folder / f"a{end}", rows, **options))
        assert data.kind == "labelled"
        assert [(e.text, e.text_pair) for e in data.examples] == texts
        assert [e.label for e in data.examples] == labels_as_read(labels)

    @settings(max_examples=30, deadline=None)
    @given(st.lists(ANY, min_size=ROWS, max_size=ROWS), LABELS)
    def test_parquet(self, folder: Path, texts: list[str], labels: list[int | str]) -> None:
        rows = [{"label": y, "text": t} for t, y in zip(texts, labels, strict=True)]
        data = read_file(write_parquet(folder / "a.parquet", rows))
        assert data.examples == tuple(Example(text=t, label=y) for t, y in zip(texts, labels, strict=True))

    def test_parquet_over_several_batches_and_dictionary_columns(self, tmp_path: Path) -> None:
        texts = [f"text {i}" for i in range(1000)]
        table = pa.table({"text": pa.array(texts).dictionary_encode(), "junk": [b"\xff"] * 1000})
        pq.write_table(table, tmp_path / "a.parquet", row_group_size=300)
        assert [e.text for e in read_file(tmp_path / "a.parquet").examples] == texts

    def test_values_that_pandas_would_take_for_something_else(self, tmp_path: Path) -> None:
        texts = ["NA", "null", "nan", "1e5", "007", "True", " padded ", "-"]
        rows = [{"text": text, "label": "None"} for text in texts]
        data = read_file(write_csv(tmp_path / "a.CSV", rows))
        assert data.examples == tuple(Example(text=text, label="None") for text in texts)

    @pytest.mark.parametrize("labels", [["007", "1"], ["1.0", "0.0"], ["+1", "1"], ["1", "x"], ["-0", "0"], ["²", "1"]])
    def test_labels_that_are_not_all_plain_numbers_stay_as_written(self, tmp_path: Path, labels: list[str]) -> None:
        rows = [{"text": "a", "label": label} for label in labels]
        assert [e.label for e in read_file(write_csv(tmp_path / "a.csv", rows)).examples] == labels

    def test_jsonl_keeps_the_type_of_labels_and_an_absent_pair(self, tmp_path: Path) -> None:
        rows = [{"text": "a", "label": 1}, {"text": "b", "label": "1", "text_pair": "c"}, {"text": "d", "label": "x"}]
        data = read_file(write_jsonl(tmp_path / "a.jsonl", rows))
        assert [(e.label, e.text_pair) for e in data.examples] == [(1, None), ("1", "c"), ("x", None)]

    def test_blank_rows_of_csv_are_ignored_and_headers_are_trimmed(self, tmp_path: Path) -> None:
        (tmp_path / "a.csv").write_bytes(b"\xef\xbb\xbftext , label\n\na,1\n,\n\nb,0\n\n")
        assert read_file(tmp_path / "a.csv").examples == (Example(text="a", label=1), Example(text="b", label=0))

    def test_unicode_line_ends_inside_a_json_line(self, tmp_path: Path) -> None:
        (tmp_path / "a.jsonl").write_text('\n{"text": "a\u2028b\x85c"}\r\n\n', encoding="utf-8")
        assert read_file(tmp_path / "a.jsonl").examples == (Example(text="a\u2028b\x85c"),)


class TestKinds:
    @pytest.mark.parametrize(
        ("columns", "kind"),
        [
            (["text"], "text"),
            (["id", "text", "source"], "text"),
            (["target", "source"], "pairs"),
            (["text", "label"], "labelled"),
            (["label", "text", "source", "target"], "labelled"),
            (["text", "target", "source"], "pairs"),
        ],
    )
    def test_kind_follows_from_the_columns(self, tmp_path: Path, columns: list[str], kind: str) -> None:
        for write, end in ((write_csv, "csv"), (write_jsonl, "jsonl"), (write_parquet, "parquet")):
            path: Path = write(tmp_path / f"a.{end}", [dict.fromkeys(columns, "x")])  # type: ignore[operator]
            assert read_file(path).kind == kind

    def test_pictures_count_from_the_folder_of_the_file(self, tmp_path: Path) -> None:
        (tmp_path / "sub").mkdir()
        (tmp_path / "sub" / "p.png").write_bytes(b"x")
        (tmp_path / "q.png").write_bytes(b"x")
        rows = [{"image": "sub/p.png", "label": "cat"}, {"image": "sub/../q.png", "label": "dog"}]
        data = read_file(write_csv(tmp_path / "a.csv", rows))
        assert data.kind == "images"
        found = [e.image for e in data.examples]
        assert found == [(tmp_path / "sub" / "p.png").resolve(), (tmp_path / "q.png").resolve()]


def refused(path: Path, *words: str) -> str:
    """The message with which a file is refused: one line, naming the file and containing ``words``."""
    with pytest.raises(DataError) as caught:
        read_file(path)
    message = str(caught.value)
    assert len(message.splitlines()) == 1
    assert path.name in message
    for word in words:
        assert word in message, message
    return message


def put(path: Path, content: bytes | str) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


class TestRefusals:
    def test_no_such_file(self, tmp_path: Path) -> None:
        refused(tmp_path / "none.csv", "no such file", "check the path")

    def test_folder(self, tmp_path: Path) -> None:
        (tmp_path / "d.txt").mkdir()
        refused(tmp_path / "d.txt", "is a folder", ".jsonl")

    def test_not_a_regular_file(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "pipe.txt")
        refused(tmp_path / "pipe.txt", "not a regular file")

    def test_name_that_no_file_can_have(self) -> None:
        refused(Path("x" * 5000 + ".txt"), "cannot be read")

    @pytest.mark.parametrize("name", ["a.json", "a", "a.txt.gz", "a.pkl"])
    def test_unknown_ending(self, tmp_path: Path, name: str) -> None:
        refused(put(tmp_path / name, "text"), "unknown ending", ".txt, .jsonl, .csv, .tsv, .parquet")

    @pytest.mark.parametrize("end", ["txt", "jsonl", "csv", "tsv", "parquet"])
    def test_too_big(self, tmp_path: Path, end: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(readers, "MAX_BYTES", 2**20)
        with (tmp_path / f"a.{end}").open("wb") as stream:
            stream.truncate(2**20 + 2**19)
        refused(tmp_path / f"a.{end}", "1.5 MB is more than 1 MB", "cut the file")

    def test_too_many_examples(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(readers, "MAX_EXAMPLES", 3)
        assert len(read_file(put(tmp_path / "a.txt", "x\n" * 3)).examples) == 3
        refused(put(tmp_path / "a.txt", "x\n" * 4), "more than 3 examples")
        refused(write_parquet(tmp_path / "a.parquet", [{"text": "x"}] * 4), "more than 3 examples")

    @pytest.mark.parametrize("end", ["txt", "jsonl", "csv", "tsv"])
    def test_not_utf8(self, tmp_path: Path, end: str) -> None:
        refused(put(tmp_path / f"a.{end}", "text\nä\n".encode() + "ö".encode("latin-1")), "byte 8", "line 3", "UTF-8")
        refused(put(tmp_path / f"a.{end}", "text\na\n".encode("utf-16")), "byte 0", "line 1", "UTF-8")
        refused(put(tmp_path / f"a.{end}", "text\na\n".encode("utf-16-le")), "NUL character in line 1", "UTF-8")

    @pytest.mark.parametrize(
        ("end", "content"), [("txt", "\n  \n\t\n"), ("jsonl", "\n\n"), ("csv", "text\n\n"), ("tsv", "text,label\n")]
    )
    def test_no_examples(self, tmp_path: Path, end: str, content: str) -> None:
        refused(put(tmp_path / f"a.{end}", content), "columns found" if end == "tsv" else "no examples")

    @pytest.mark.parametrize("end", ["txt", "jsonl", "csv", "tsv", "parquet"])
    def test_empty_file(self, tmp_path: Path, end: str) -> None:
        refused(put(tmp_path / f"a.{end}", b""))

    def test_parquet_without_rows(self, tmp_path: Path) -> None:
        pq.write_table(pa.table({"text": pa.array([], pa.string())}), tmp_path / "a.parquet")
        refused(tmp_path / "a.parquet", "no examples")

    @pytest.mark.parametrize("columns", [["sentence", "label"], ["source"], ["image"], ["text_pair"], ["Text"]])
    def test_wrong_columns(self, tmp_path: Path, columns: list[str]) -> None:
        for write, end in ((write_csv, "csv"), (write_jsonl, "jsonl"), (write_parquet, "parquet")):
            path: Path = write(tmp_path / f"a.{end}", [dict.fromkeys(columns, "x")])  # type: ignore[operator]
            needed = "columns needed: text | source,target | text[,text_pair],label | image,label"
            refused(path, f"columns found: {', '.join(columns)};", needed)

    def test_many_long_columns_are_not_all_told(self, tmp_path: Path) -> None:
        row = {f"{'c' * 500}{i}": "x" for i in range(500)}
        assert len(refused(write_csv(tmp_path / "a.csv", [row]), ", ...")) < 1000

    def test_column_twice(self, tmp_path: Path) -> None:
        refused(put(tmp_path / "a.csv", "text,text\na,b\n"), "column text is there twice")

    @pytest.mark.parametrize(
        ("line", "word"),
        [
            ('{"text": "a"', "broken JSON"),
            ("{'text': 'a'}", "broken JSON"),
            ('"a"', "needed an object"),
            ("[1]", "needed an object"),
            ("[" * 100_000, "JSON"),
            ('{"text": "a", "n": ' + "1" * 5000 + "}", "JSON"),
            ('{"text": null}', "text is missing"),
            ('{"source": "a"}', "text is missing"),
            ('{"text": 3}', "text must be text, found int 3"),
            ('{"text": ["a"]}', "text must be text, found list"),
            ('{"text": ""}', "text is empty"),
            ('{"text": " \\n"}', "text is empty"),
            ('{"text": "a\\ud800"}', "half a character (a lone surrogate) at position 1"),
            (json.dumps({"text": "x" * 1_000_001}), "1,000,001 characters, more than 1,000,000"),
        ],
    )
    def test_bad_json_line(self, tmp_path: Path, line: str, word: str) -> None:
        refused(put(tmp_path / "a.jsonl", f'{{"text": "fine"}}\n\n{line}\n'), "line 3", word)

    def test_longest_text_is_fine(self, tmp_path: Path) -> None:
        text = "x" * 1_000_000
        assert read_file(write_csv(tmp_path / "a.csv", [{"text": text}])).examples == (Example(text=text),)

    @pytest.mark.parametrize("label", ["null", "true", "1.0", "[1]", '""', "{}"])
    def test_bad_label(self, tmp_path: Path, label: str) -> None:
        good = '{"text": "a", "label": 0}'
        refused(put(tmp_path / "a.jsonl", f'{good}\n{{"text": "b", "label": {label}}}\n'), "line 2: label")
        refused(put(tmp_path / "a.jsonl", f'{good}\n{{"text": "b"}}\n'), "line 2: label is missing")

    @pytest.mark.parametrize(
        ("content", "words"),
        [
            ("text,label\na,1\nb,1,2\n", ["Expected 2 fields in line 3, saw 3", "double quotes"]),
            ("text,label\na\nb,1\n", ["row 2: label is missing"]),
            ("text,label\na,1\n\n\nb,\n", ["row 5: label is missing"]),
            ("text,label\na,1\n,0\n", ["row 3: text is empty"]),
            ('text,label\n"a,1\nb,2\n', ["EOF inside string"]),
            ("\ntext,label\na,1\n", ["first"]),
            ("text;label\na;1\n", ["columns found: text;label;"]),
        ],
    )
    def test_ragged_or_incomplete_csv(self, tmp_path: Path, content: str, words: list[str]) -> None:
        refused(put(tmp_path / "a.csv", content), *words)

    def test_null_in_parquet(self, tmp_path: Path) -> None:
        write_parquet(tmp_path / "a.parquet", [{"text": "a", "label": 1}, {"text": None, "label": 2}])
        refused(tmp_path / "a.parquet", "row 2: text is missing")
        write_parquet(tmp_path / "a.parquet", [{"text": "a", "label": "x"}, {"text": "b", "label": None}])
        refused(tmp_path / "a.parquet", "row 2: label is missing")

    @pytest.mark.parametrize("column", [[b"a"], [1.5], [["a"]], [{"bytes": b"x"}]])
    def test_parquet_columns_of_other_types(self, tmp_path: Path, column: list[Any]) -> None:
        pq.write_table(pa.table({"text": column}), tmp_path / "a.parquet")
        refused(tmp_path / "a.parquet", "row 1: text must be text")

    def test_damaged_parquet(self, tmp_path: Path) -> None:
        path = write_parquet(tmp_path / "a.parquet", [{"text": f"number {i}"} for i in range(2000)])
        whole = path.read_bytes()
        refused(put(path, whole[: len(whole) // 2]), "cannot be read as parquet")
        refused(put(path, whole[:4] + b"\xff" * 500 + whole[504:]), "cannot be read as parquet")

    def test_parquet_that_unpacks_to_too_much(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(readers, "MAX_BYTES", 100_000)
        rows = [{"text": "x" * 50_000}] * 100  # a dictionary of one value, and compressed
        assert write_parquet(tmp_path / "a.parquet", rows).stat().st_size < 100_000
        refused(tmp_path / "a.parquet", "unpacked")
        frame = pd.DataFrame([{"text": f"{i} " + "x" * 50_000} for i in range(100)])
        frame.to_parquet(tmp_path / "b.parquet", compression="zstd")
        refused(tmp_path / "b.parquet", "MB unpacked")

    @pytest.mark.parametrize("image", ["../p.png", "sub/../../p.png", "{outside}/p.png", "link/p.png", "link.png"])
    def test_picture_outside_the_folder(self, tmp_path: Path, image: str) -> None:
        inside = tmp_path / "in"
        (inside / "sub").mkdir(parents=True)
        (tmp_path / "p.png").write_bytes(b"x")
        (inside / "link").symlink_to(tmp_path)
        (inside / "link.png").symlink_to(tmp_path / "p.png")
        rows = [{"image": image.format(outside=tmp_path), "label": 1}]
        refused(write_jsonl(inside / "a.jsonl", rows), "line 1", "leads out of the folder")

    def test_absolute_path_of_a_picture_inside_is_refused_too(self, tmp_path: Path) -> None:
        (tmp_path / "p.png").write_bytes(b"x")
        rows = [{"image": str(tmp_path / "p.png"), "label": 1}]
        refused(write_jsonl(tmp_path / "a.jsonl", rows), "give a path relative to it")

    @pytest.mark.parametrize("image", ["none.png", ".", "x" * 300, "a\0b", "circle"])
    def test_picture_that_is_not_there(self, tmp_path: Path, image: str) -> None:
        (tmp_path / "circle").symlink_to(tmp_path / "circle")
        refused(write_jsonl(tmp_path / "a.jsonl", [{"image": image, "label": 1}]), "line 1")

    @settings(max_examples=150, deadline=None)
    @given(st.binary(max_size=60), st.sampled_from([".txt", ".jsonl", ".csv", ".tsv", ".parquet"]))
    def test_no_bytes_give_anything_but_examples_or_one_line(self, folder: Path, content: bytes, end: str) -> None:
        message = ""
        try:
            examples = read_file(put(folder / f"fuzz{end}", content)).examples
        except DataError as error:
            examples, message = (), str(error)
        assert bool(examples) != bool(message)
        assert len(message.splitlines()) <= 1


def test_csv_agrees_with_the_csv_module_on_hard_quoting(tmp_path: Path) -> None:
    content = 'text,label\r\n"a ""b"" c",1\r\n"two\r\nlines",2\r\n"with, comma",3\r\nit\'s,4\r\n in "the" middle,5\r\n'
    put(tmp_path / "a.csv", content)
    wanted = [(row["text"], int(row["label"])) for row in csv.DictReader(io.StringIO(content, newline=""))]
    assert [(e.text, e.label) for e in read_file(tmp_path / "a.csv").examples] == wanted
