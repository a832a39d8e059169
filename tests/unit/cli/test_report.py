"""``headlens report``: a page from folders."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Cli
from tests.unit.pruning import recovery_toys as toys

QUICK = ("--repeats", 3, "--batch-sizes", 1, "--new-tokens", 4)


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained model."""
    return toys.trained(tmp_path_factory.mktemp("toys") / "full")


@pytest.fixture(scope="module")
def text(full: Path) -> Path:
    """Lines."""
    return toys.text_file(full.parent / "lines.txt")


def test_from_cut_to_report(cli: Cli, full: Path, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cut, better, out = tmp_path / "cut", tmp_path / "better", tmp_path / "r.html"
    chosen = ("--method", "gradient", "--fraction", 0.5, "--data", text, "--split", "score")
    assert cli("prune", full, *chosen, "--out", cut).code == 0
    assert cli("recover", cut, "--data", text, "--steps", 8, "--lr", 0.002, "--out", better).code == 0
    result = cli("report", better, "--data", text, "--split", "held-out", *QUICK, "--out", out, "--json")
    assert result.code == 0, result.err
    found, page = result.json, out.read_text(encoding="utf-8")
    assert [model["role"] for model in found["models"]] == ["full", "cut", "cut + recovered"]
    held_out = ("--data", text, "--split", "held-out", "--json")
    values = {row["role"]: row["value"] for row in found["quality"] if row["metric"] == "loss"}
    for role, folder in (("full", full), ("cut", cut), ("cut + recovered", better)):
        assert values[role] == pytest.approx(cli("evaluate", folder, *held_out).json["value"], rel=1e-6)
        assert f"{values[role]:.4g}" in page
    assert "method gradient" in page
    assert "split-half reliability of that ranking" in page
    # The scores on the map are those that chose the heads, so no limit says otherwise.
    assert not any("scores on the map were made" in limit for limit in found["limits"])
    commands = found["commands"]
    assert [command.split()[1] for command in commands] == ["prune", "recover", "report"]
    assert commands[2].endswith("--out r.html")
    for told in (page, *((folder / "headlens.json").read_text(encoding="utf-8") for folder in (cut, better))):
        assert not any(str(place) in told for place in (tmp_path, full.parent))
    # Where the files lie beside each other the commands make all of it again.
    (tmp_path / "again").mkdir()
    monkeypatch.chdir(tmp_path / "again")
    for path in (full, text):
        Path(path.name).symlink_to(path)
    made = [cli(*shlex.split(command)[1:], "--json") for command in commands]
    assert [one.code for one in made] == [0, 0, 0], [one.err for one in made]
    again = made[-1]
    assert [row["value"] for row in again.json["quality"]] == [row["value"] for row in found["quality"]]


def test_a_full_model_alone_gives_its_map(cli: Cli, full: Path, text: Path, tmp_path: Path) -> None:
    out = tmp_path / "r.html"
    command = ("report", full, "--data", text, "--no-speed", "--samples", 0, "--method", "magnitude", "--out", out)
    result = cli(*command)
    assert result.code == 0, result.err
    assert "L1H3, score" in out.read_text(encoding="utf-8")
    assert "Written to" in result.out


def test_mistakes_take_one_line(cli: Cli, full: Path, text: Path, tmp_path: Path) -> None:
    out = tmp_path / "r.html"
    cut = toys.cut_of(full, tmp_path / "cut")
    cases = {
        ("report", full, "--out", tmp_path / "r.pdf"): ".html",
        ("report", full, "--out", tmp_path / "a" / "r.html"): "there is no folder",
        ("report", full): "--out",
        ("report", tmp_path / "nothing", "--out", out): "nothing",
        ("report", cut, full, "--data", text, "--out", out): "is not a cut of",
        ("report", full, cut, "--data", tmp_path / "no.txt", "--out", out): "no.txt",
        ("report", full, cut, "--data", text, "--batch-sizes", "x", "--out", out): "--batch-sizes",
        ("report", full, cut, "--data", text, "--method", "magic", "--out", out): "magic",
        ("report", full, cut, "--data", text, "--prompt", "", "--no-speed", "--out", out): "empty",
    }
    for command, words in cases.items():
        result = cli(*command)
        assert result.code == 2, (command, result)
        assert len(result.lines) == 1, result.lines
        assert result.lines[0].startswith("error: ")
        assert words in result.lines[0], result.lines
    assert not out.exists()
