"""The sets that come with HeadLens, checked against their files as the json module reads them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from headlens import paths
from headlens.data.builtin import default_set, describe_sets, index, read_builtin
from headlens.data.dataset import KINDS, Example
from headlens.errors import DataError

FOLDER = paths.asset_dir() / "data"
NAMES = [entry.name for entry in index()]


def rows_of(name: str) -> list[dict[str, Any]]:
    file = next(entry.file for entry in index() if entry.name == name)
    return [json.loads(line) for line in (FOLDER / file).read_bytes().decode().split("\n") if line]


def test_index_is_the_file() -> None:
    raw = json.loads((FOLDER / "index.json").read_bytes())
    assert [(e.name, e.file, e.task, e.language, e.title, e.description) for e in index()] == [
        (r["name"], r["file"], r["task"], r["language"], r["title"], r["description"]) for r in raw
    ]
    assert len(set(NAMES)) == len(NAMES)
    assert {entry.file for entry in index()} == {path.name for path in FOLDER.glob("*.jsonl")}


@pytest.mark.parametrize("name", NAMES)
def test_halves_are_those_of_the_file(name: str) -> None:
    rows = rows_of(name)
    for split in ("score", "held-out", "all"):
        data = read_builtin(name, split)
        wanted = [{k: v for k, v in row.items() if k != "split"} for row in rows if split in ("all", row["split"])]
        for row in wanted:
            if "image" in row:
                row["image"] = FOLDER.resolve() / row["image"]
        assert data.examples == tuple(Example(**row) for row in wanted)
        assert (data.name, data.split, data.built_in) == (name, split, True)
    assert {row["split"] for row in rows} == {"score", "held-out"}


def test_unknown_name() -> None:
    with pytest.raises(DataError, match=r"no built-in set 'nope'; there are stories, "):
        read_builtin("nope", "all")


@pytest.mark.parametrize("task", list(KINDS))
def test_default_is_the_first_that_fits(task: str) -> None:
    fitting = [entry.name for entry in index() if entry.task in KINDS[task]]
    assert default_set(task) == fitting[0]
    assert read_builtin(default_set(task), "held-out").examples


def test_default_follows_the_order_of_the_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data").mkdir()
    entries = [
        {"name": n, "file": f"{n}.jsonl", "task": t, "language": "en", "title": n, "description": n}
        for n, t in (("p", "pairs"), ("b", "text"), ("a", "text"))
    ]
    (tmp_path / "data" / "index.json").write_text(json.dumps(entries))
    monkeypatch.setattr(paths, "asset_dir", lambda: tmp_path)
    assert default_set("causal-lm") == "b"
    assert default_set("seq2seq") == "p"
    with pytest.raises(DataError, match="no built-in set for text-classification models; pass a file"):
        default_set("text-classification")
    with pytest.raises(
        DataError, match=r"no built-in set for image-classification models; pass a file with image,label"
    ):
        default_set("image-classification")


def test_no_default_for_unmeasured_tasks() -> None:
    with pytest.raises(DataError, match="audio models take no data"):
        default_set("audio")


def test_description_rows() -> None:
    rows = describe_sets()
    assert [row["name"] for row in rows] == NAMES
    json.dumps(rows)
    for row in rows:
        raw = rows_of(row["name"])
        for split in ("score", "held-out"):
            assert row["splits"][split] == sum(r["split"] == split for r in raw)
        texts = " ".join(r[key] for r in raw for key in ("text", "source", "target") if key in r)
        assert row["tokens"] == count_pieces(texts)
        assert row["tasks"] == [task for task, kinds in KINDS.items() if row["task"] in kinds]


def count_pieces(text: str) -> int:
    """Letter by letter: a run of word characters is one piece, every other visible character another."""
    total, inside = 0, False
    for letter in text:
        word = letter.isalnum() or letter == "_"
        total += (word and not inside) or (not word and not letter.isspace())
        inside = word
    return total


def test_listing_is_cheap() -> None:
    code = (
        "import sys; from headlens.data.select import load_data; from headlens.data.builtin import describe_sets;"
        "describe_sets(); load_data(None, task='causal-lm');"
        "print([m for m in ('torch', 'transformers', 'pandas', 'pyarrow', 'numpy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
