"""Data that comes with HeadLens: written and read back, what is missing is None, what is damaged is one line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from headlens.errors import HeadlensError
from headlens.lab import literature as published
from headlens.lab import shipped
from headlens.lab.literature import gap_sentence, literature
from headlens.lab.questions import CONTROLS
from headlens.lab.specs import Training
from tests.unit.lab.invented import results, study


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty data folder."""
    for cached in (shipped.shipped_runs, shipped.shipped_table, literature):
        cached.cache_clear()
    monkeypatch.setattr(shipped, "folder", lambda: tmp_path)
    monkeypatch.setattr(published, "folder", lambda: tmp_path)
    yield tmp_path
    for cached in (shipped.shipped_runs, shipped.shipped_table, literature):
        cached.cache_clear()


def test_runs_come_back_with_exact_specs_and_rounded_numbers(place: Path) -> None:
    s = study(2, controls=(CONTROLS["learning-rates"],), training=Training(learning_rate=0.0012345678))
    written = list(results(s, lambda spec: 0.123456789).values())
    shipped.save_runs("x.json", written, command="make it", made="2026-01-02")
    found = shipped.shipped_runs("x.json")
    assert found is not None
    assert [run.spec for run in found.runs] == s.specs()
    assert found.runs[0].loss_bits == 0.12346
    assert (found.command, found.made) == ("make it", "2026-01-02")
    assert [path.name for path in place.iterdir()] == ["x.json"]


def test_what_is_not_there_is_none_and_what_is_damaged_is_said(place: Path) -> None:
    assert shipped.shipped_runs("none.json") is None
    assert shipped.shipped_table("none.json") is None
    for text in ("{", "{}", '{"runs": [{}], "command": "", "made": "", "versions": {}}', "[]"):
        (place / "bad.json").write_text(text)
        shipped.shipped_runs.cache_clear()
        shipped.shipped_table.cache_clear()
        with pytest.raises(HeadlensError, match=r"bad\.json cannot be read"):
            shipped.shipped_runs("bad.json")
    with pytest.raises(HeadlensError, match="literature"):
        literature()


def test_tables_say_where_they_come_from(place: Path) -> None:
    table = {"command": "c", "made": "2026-01-02", "versions": {"torch": "2"}, "rows": [{"a": 1}]}
    (place / "t.json").write_text(json.dumps(table))
    found = shipped.shipped_table("t.json")
    assert found is not None
    assert found == table
    assert shipped.made_by(found) == "made on 2026-01-02 by `c` (torch 2)"


def test_the_literature_has_both_sides_with_grades() -> None:
    found = literature()
    assert len(found.side("for")) >= 5
    assert len(found.side("against")) >= 3
    graded = [*found.findings, *(type("Row", (), row) for row in found.raw["sharing"])]
    assert {row.grade for row in graded} <= set(found.grades)
    for name in ("Voita", "Behnke", "Li et al. 2020", "Minitron", "DeepSeek-V2"):
        assert any(name in row.source for row in found.side("for"))
    for name in ("Liu et al. 2019", "Prasanna"):
        assert any(name in row.source for row in found.side("against"))
    assert "hypothesis" in found.raw["hypothesis"]["text"]


def test_the_gaps_of_voitas_table_by_hand() -> None:
    gaps = [row.gap for row in literature().voita]
    assert gaps == [0.15, 0.41, 0.5, 0.49, 0.01, 0.25, 0.43]
    assert "7 of 7 rows, by 0.01 to 0.50 BLEU (0.32 on average)" in gap_sentence(literature().voita)
