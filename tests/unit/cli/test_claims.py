"""``claims`` from end to end on a tiny model: the contract's record, exports, resuming, mistakes."""

from __future__ import annotations

import math
from pathlib import Path

import pandas as pd
import pytest

from headlens.claims.registry import REGISTRY
from headlens.interview.claims import CLAIMS

from .conftest import LINES, Cli

KEPT = {claim.name: not claim.of_the_lab for claim in REGISTRY}
"""Those that only read runs of the lab read them anew each time."""

FIELDS = {"id", "statement", "verdict", "value", "low", "high", "unit", "rule", "published", "source", "seconds"}


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    """Enough different lines for two halves of eight."""
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(f"{a} {b}" for a, b in zip(LINES * 3, LINES[1:] + LINES + LINES[2:], strict=False)))
    return path


def test_every_claim_gives_the_contract_s_record(cli: Cli, gpt2: Path, texts: Path, tmp_path: Path) -> None:
    out = tmp_path / "claims.csv"
    found = cli("claims", gpt2, "--data", texts, "--out", out, "--json")
    assert found.code == 0, found.err
    claims = found.json["claims"]
    assert {one["id"] for one in claims} == {*CLAIMS}
    for one in claims:
        assert set(one) >= FIELDS
        assert one["verdict"] in ("holds", "fails", "mixed", "not measurable")
        assert one["statement"] == CLAIMS[one["id"]]
        assert one["rule"]
        assert one["published"]
        if one["verdict"] == "not measurable":
            assert one["value"] is None
            assert one["sentence"]
        else:
            assert math.isfinite(one["value"])
            assert one["low"] is None or one["low"] <= one["value"] <= one["high"]
    by_id = {one["id"]: one for one in claims}
    assert by_id["independent-at-init"]["verdict"] == "holds"
    assert by_id["cross-most-sensitive"]["verdict"] == "not measurable"
    assert by_id["recovers"]["verdict"] == "not measurable"
    assert "takes long" in by_id["recovers"]["sentence"]
    assert list(pd.read_csv(out)["id"]) == [one["id"] for one in claims]

    again = cli("claims", gpt2, "--data", texts, "--json").json["claims"]
    same = {one["id"]: one for one in again}
    for name, one in by_id.items():
        if one["value"] is not None:
            assert same[name]["cached"] is KEPT[name]
            changing = {"cached"} if KEPT[name] else {"cached", "seconds"}
            assert {k: v for k, v in same[name].items() if k not in changing} == {
                k: v for k, v in one.items() if k not in changing
            }


def test_only_some_and_other_endings(cli: Cli, gpt2: Path, texts: Path, tmp_path: Path) -> None:
    for ending, start in ((".md", "# Claims"), (".html", "<!doctype html>")):
        out = tmp_path / f"c{ending}"
        found = cli("claims", gpt2, "--data", texts, "--only", "beats-chance, additive", "--out", out, "--json")
        assert found.code == 0, found.err
        assert {one["id"] for one in found.json["claims"]} == {"beats-chance", "additive"}
        assert out.read_text(encoding="utf-8").startswith(start)
    assert "script" not in out.read_text(encoding="utf-8")


def test_mistakes_take_one_line(cli: Cli, gpt2: Path, tmp_path: Path) -> None:
    for arguments in (
        ("claims", gpt2, "--only", "beats-chanc"),
        ("claims", gpt2, "--only", ","),
        ("claims", gpt2, "--out", tmp_path / "c.pdf"),
        ("claims", "nosuch"),
    ):
        found = cli(*arguments)
        assert found.code == 2
        assert len(found.lines) == 1
        assert found.lines[0].startswith("error: ")
    assert "did you mean beats-chance?" in cli("claims", gpt2, "--only", "beats-chanc").err
