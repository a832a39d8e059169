"""What is passed on tells no whole paths, and still leads to the models where those are near by."""

from __future__ import annotations

from pathlib import Path

import pytest

from headlens.pruning.names import found_from, seen_from, spoken


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("smollm2-135m", "smollm2-135m"),
        ("org/model", "org/model"),
        ("models/mine", "models/mine"),
        ("../mine", "../mine"),
        ("/home/someone/models/mine", "mine"),
        ("~/mine", "mine"),
        ("1e-4", "1e-4"),
    ],
)
def test_spoken(typed: str, told: str) -> None:
    assert spoken(typed) == told


def test_there_and_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full, cut = tmp_path / "models" / "full", tmp_path / "cuts" / "cut"
    for folder in (full, cut):
        folder.mkdir(parents=True)
    assert seen_from(cut, str(full)) == "../../models/full"
    monkeypatch.chdir(tmp_path)
    assert seen_from(cut, "models/full") == "../../models/full"
    monkeypatch.chdir("/")
    assert found_from(cut, "../../models/full") == str(full)
    assert seen_from(cut, "smollm2-135m") == "smollm2-135m"
    assert found_from(cut, "smollm2-135m") == "smollm2-135m"
    assert found_from(cut, str(full)) == str(full)  # as older folders have it


def test_far_away_is_only_a_name(tmp_path: Path) -> None:
    """The way from another tree would tell whose it is."""
    assert seen_from(Path("/srv/cuts/cut"), str(tmp_path)) == tmp_path.name
