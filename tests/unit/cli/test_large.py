"""Options for large models on the command line: device maps, automatic batches, forecasts and questions."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
import torch

from headlens.lens import Lens

from .conftest import Cli


def scores_of(path: Path) -> list[tuple[str, ...]]:
    with path.open(encoding="utf-8") as file:
        return [(row["site"], row["layer"], row["head"], row["score"]) for row in csv.DictReader(file)]


def test_a_map_with_the_disk_gives_the_same_file(cli: Cli, gpt2: Path, texts: Path, tmp_path: Path) -> None:
    spread = tmp_path / "map.json"
    spread.write_text(json.dumps({"": "cpu", "transformer.h.2": "disk", "transformer.h.3": "disk"}), encoding="utf-8")
    out = [tmp_path / "plain.csv", tmp_path / "spread.csv"]
    command = ("importance", gpt2, "--method", "ablation", "--data", texts, "--no-resume", "--out")
    assert cli(*command, out[0], "--device", "cpu").code == 0
    found = cli(*command, out[1], "--device-map", spread)
    assert found.code == 0, found.err
    assert any("on disk" in line for line in found.lines)
    assert scores_of(out[0]) == scores_of(out[1])


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--device-map", "anywhere"), "'anywhere' is not one of auto"),
        (("--device-map", "none.json"), "none.json: cannot be read"),
        (("--max-memory", "cpu=1GB"), "add --device-map auto"),
        (("--device-map", "auto", "--max-memory", "lots"), "--max-memory 'lots'"),
        (("--device-map", "auto", "--max-memory", "9=1GB"), "names 9, which is not on this machine"),
        (("--batch-size", "some"), "'some' is neither auto nor a whole number"),
        (("--batch-size", "0"), "'0' is neither auto nor a whole number"),
        (("--question", "best"), "top:K"),
        (("--question", "top:20"), "20 of 20 heads"),
        (("--question", "top:3", "--normalize", "layer"), "without --normalize"),
    ],
)
def test_bad_input(cli: Cli, gpt2: Path, texts: Path, options: tuple[str, ...], text: str) -> None:
    found = cli("importance", gpt2, "--method", "ablation", "--data", texts, *options)
    assert found.code == 2
    assert found.out == ""
    errors = [line for line in found.lines if line.startswith("error: ")]
    assert len(errors) == 1
    assert text in errors[0]


def test_the_forecast_comes_before_the_work(cli: Cli, gpt2: Path, texts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    short = cli("importance", gpt2, "--method", "ablation", "--data", texts, "--no-resume")
    assert not any(line.startswith("estimate: ") for line in short.lines), "short work needs none"
    monkeypatch.setattr("headlens.estimates.SLOW", 0.0)
    found = cli("importance", gpt2, "--method", "ablation", "--data", texts)
    (line,) = [line for line in found.lines if line.startswith("estimate: ")]
    assert line.startswith("estimate: ablation: 20 heads x ")
    assert "on this machine; gradient: " in line
    assert " of weights, about " in line
    curve = cli("curve", gpt2, "--method", "gradient", "--data", texts, "--split", "all", "--random", 1)
    lines = [line for line in curve.lines if line.startswith("estimate: ")]
    assert [line.split(":")[1].strip() for line in lines] == ["curve", "scores by gradient"]


def test_auto_goes_on_with_less(cli: Cli, gpt2: Path, texts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = ("importance", gpt2, "--method", "gradient", "--data", texts, "--no-resume", "--json")
    plain = cli(*command).json
    whole = Lens.forward

    def forward(lens, inputs, run=None):
        if len(inputs["input_ids"]) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return whole(lens, inputs, run)

    monkeypatch.setattr(Lens, "forward", forward)
    found = cli(*command, "--batch-size", "auto")
    assert found.code == 0, found.err
    assert sum("half as large" in line for line in found.lines) >= 1
    for one, other in zip(found.json["scores"], plain["scores"], strict=True):
        assert one["score"] == pytest.approx(other["score"], rel=1e-4)
    kept = cli(*command, "--batch-size", 6)
    assert (kept.code, len([line for line in kept.lines if "not enough memory" in line])) == (2, 1)


def test_a_question(cli: Cli, gpt2: Path, texts: Path, tmp_path: Path) -> None:
    out, full = tmp_path / "asked.csv", tmp_path / "full.csv"
    command = ("importance", gpt2, "--method", "ablation", "--data", texts)
    found = cli(*command, "--question", "top:3", "--out", out, "--json")
    assert found.code == 0, found.err
    assert cli(*command, "--no-resume", "--out", full).code == 0
    ranked = sorted(scores_of(full), key=lambda row: -float(row[3]))[:3]
    assert found.json["answer"] == [f"L{layer}H{head}" for _, layer, head, _ in ranked]
    with out.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0])[:6] == ["site", "layer", "head", "score", "sem", "n"]
    assert sum(row["answer"] == "True" for row in rows) == 3
    assert found.json["measured"] == sum(row["measured"] == "True" for row in rows)
    assert json.loads(out.with_suffix(".json").read_text(encoding="utf-8"))["question"] == "top:3"
    assert any("Error risk" in line or "answer of the full sweep" in line for line in found.lines)
    shown = cli(*command, "--question", "bottom:0.2")
    assert "The 4 least important: " in shown.out
    assert "Forward passes over the data: about" in shown.out


def test_a_question_is_about_exact_scores(cli: Cli, gpt2: Path, texts: Path) -> None:
    found = cli("importance", gpt2, "--method", "gradient", "--data", texts, "--question", "top:3")
    assert (found.code, len(found.lines)) == (2, 1)
    assert "--method ablation" in found.err
