"""``headlens lab``: the contract's record, files, and every mistake in one line."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Cli

SMALL = ("--distances", "1,2", "--length", "8", "--steps", "30")


def test_the_record_is_the_contracts_and_a_second_time_is_from_the_store(cli: Cli, tmp_path: Path) -> None:
    out, curves = tmp_path / "runs.csv", tmp_path / "curves.csv"
    arguments = ("lab", "--heads", "4,2", "--seeds", "2", *SMALL, "--json", "--out", out, "--curves", curves)
    first = cli(*arguments, "--control", "extra-steps", "--extra-steps", "5")
    assert first.code == 0
    found = first.json
    assert set(found) >= {"runs", "summary"}
    scratch = [run for run in found["runs"] if run["kind"] == "scratch"]
    assert [(run["heads"], run["seed"]) for run in scratch] == [(2, 0), (2, 1), (4, 0), (4, 1)]
    for run in scratch:
        assert run["steps"] == 30
        assert 0 <= run["loss_bits"] < 4
        assert set(run["found"]) <= {1, 2}
        assert run["seconds"] > 0
        assert run["pruned_to"] == (2 if run["heads"] == 4 else None)
        assert (run["pruned_loss_bits"] is None) == (run["heads"] == 2)
    assert {row["arm"] for row in found["summary"]} >= {"scratch-2", "scratch-4", "pruned-4", "random-4", "continued"}
    assert all("low" in row and "high" in row for row in found["summary"])
    assert len(list(csv.DictReader(out.open()))) == len(found["runs"]) == 10
    assert list(csv.DictReader(curves.open()))[-1]["step"] == "5"
    again = cli(*arguments, "--control", "extra-steps", "--extra-steps", "5")
    assert again.json == found
    assert again.err == ""
    shown = cli("lab", "--heads", "4,2", "--seeds", "2", *SMALL)
    assert "4 heads pruned to 2, no retraining" in shown.out
    assert "not decided with this few seeds (2)" in shown.out
    one = cli("lab", "--heads", "2,4", "--seeds", "1", *SMALL, "--json")
    assert "no interval from one seed" in one.err
    assert one.json["summary"][0]["low"] is None


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--heads", "0"), "number of heads is 0"),
        (("--heads", "four"), "--heads 'four' is not a list of whole numbers"),
        (("--heads", ""), "--heads '' is not a list"),
        (("--heads", "4,4"), "named twice"),
        (("--distances", "1,40"), "distance 40 is not in the sequence"),
        (("--distances", "1,1"), "named twice"),
        (("--seeds", "0"), "Invalid value for '--seeds'"),
        (("--steps", "0"), "number of steps is 0"),
        (("--steps", "1000000"), "choose fewer seeds, steps or heads, or say --yes"),
        (("--control", "luck"), "unknown control 'luck'"),
        (("--heads", "2,4", "--control", "longer"), "add for example 8 heads"),
        (("--shape", "gpt"), "Invalid value for '--shape'"),
        (("--learning-rate", "0"), "learning rate is 0"),
        (("--prune-to", "99"), "number of heads is 99"),
        (("--out", "runs.txt"), "ends in .csv"),
        (("--out", "/nowhere/at/all/runs.csv"), "there is no folder"),
        (("--symbols", "1"), "number of symbols is 1"),
    ],
)
def test_mistakes_are_one_line_that_says_what_to_do(cli: Cli, arguments: tuple[str, ...], says: str) -> None:
    found = cli("lab", *arguments, "--json")
    assert found.code == 2
    assert found.out == ""
    (line,) = found.lines
    assert line.startswith("error: ")
    assert says in line
