"""The value type: files, ranking, words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headlens.errors import HeadlensError
from headlens.heads import LayerShape, SiteShape, Topology
from headlens.scores import HeadScores, write_text

SHAPE = LayerShape((0, 2), 3, (0, 0, 1), 4, 2, True)
ONE = Topology((SiteShape("self", (SHAPE, SHAPE)),))
VALUES = np.array([[0.1, np.nan, -2.5], [1e-9, np.nan, 0.1]])


def scores(**more: Any) -> HeadScores:
    given: dict[str, Any] = {
        "topology": ONE,
        "values": {"self": VALUES},
        "sem": {"self": np.array([[0.5, np.nan, np.nan], [0.25, np.nan, 1.0]])},
        "n": 7,
        "unit": "head",
        "method": "ablation",
    }
    return HeadScores(**{**given, **more})


def test_csv_to_the_letter(tmp_path: Path) -> None:
    scores().save(tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text() == (
        "site,layer,head,score,sem,n\nself,0,0,0.1,0.5,7\nself,0,2,-2.5,,7\nself,1,0,1e-09,0.25,7\nself,1,2,0.1,1.0,7\n"
    )
    scores(n=0, unit="kv").save(tmp_path / "none.csv")
    lines = (tmp_path / "none.csv").read_text().splitlines()
    assert [line.split(",")[2] for line in lines[1:]] == ["0", "1", "0", "1"]
    assert all(line.endswith(",") for line in lines[1:])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["none.csv", "none.json", "out.csv", "out.json"]


def test_ranking_is_stable_and_skips_gone_heads() -> None:
    assert scores().ranked() == [("self", 0, 0), ("self", 1, 2), ("self", 1, 0), ("self", 0, 2)]
    assert scores().flat().tolist() == [0.1, -2.5, 1e-9, 0.1]


def test_one_array_only_for_one_site() -> None:
    assert scores().array is VALUES
    with pytest.raises(HeadlensError, match="enc, dec"):
        _ = scores(values={"enc": VALUES, "dec": VALUES}).array


@pytest.mark.parametrize(
    ("more", "stable", "said"),
    [
        ({"reliability": 0.83}, True, "0.83 (stable)"),
        ({"reliability": 0.5}, True, "0.50 (stable)"),
        ({"reliability": 0.4999}, False, "(unstable)"),
        ({"reliability": None}, None, "at least 4 examples"),
        ({"reliability": None, "n": 0}, None, "No data"),
        ({"reliability": 0.9, "no_signal": "one word"}, None, "No ranking: one word."),
    ],
)
def test_words(more: dict[str, Any], stable: bool | None, said: str) -> None:
    found = scores(**more)
    assert said in found.stability()
    assert found.describe()["stable"] is stable
    assert found.describe()["no_signal"] == more.get("no_signal")


@pytest.mark.parametrize("name", ["", ".", "..", "s.json", "missing/s.csv", "folder", "x" * 300 + ".csv"])
def test_places_that_cannot_be_written_are_told_in_one_line(name: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    path = Path(name) if name in ("", ".") else tmp_path / name
    with pytest.raises(HeadlensError) as caught:
        scores().save(path)
    assert "\n" not in str(caught.value)
    assert [p.name for p in tmp_path.iterdir()] == ["folder"]


def test_the_json_is_json(tmp_path: Path) -> None:
    beside = scores(provenance={"baseline": 1.5, "versions": {"numpy": "2"}}).save(tmp_path / "s.csv")
    assert json.loads(beside.read_text())["versions"] == {"numpy": "2"}


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    write_text(path, "é")
    write_text(path, "b\n")
    assert path.read_bytes() == b"b\n"
    assert list(tmp_path.iterdir()) == [path]
