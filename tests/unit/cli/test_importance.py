"""``importance``: its files and its object against the Python interface, and what it says beside them."""

from __future__ import annotations

import csv
import io
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from .conftest import LINES, Cli


def _rows(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"))))


def _scores(folder: Path, file: Path, method: str, **options: Any) -> Any:
    """The same through the Python interface, nothing stored."""
    from headlens import open_model
    from headlens.data.encode import encode
    from headlens.data.select import load_data
    from headlens.importance import METHODS, Request
    from headlens.importance.score import score
    from headlens.metrics import metric_for

    lens = open_model(str(folder))
    data = encode(lens, load_data(str(file), task=lens.task))
    metric = metric_for(options.pop("metric", None), lens.task)
    normalize = options.pop("normalize", "none")
    return score(lens, METHODS[method], Request(metric=metric, data=data, **options), normalize=normalize)


@pytest.mark.parametrize(
    ("method", "flags", "options"),
    [
        ("ablation", (), {}),
        ("ablation", ("--ablation", "resample", "--seed", 3), {"ablation": "resample", "seed": 3}),
        ("ablation", ("--metric", "accuracy", "--unit", "kv"), {"metric": "accuracy", "unit": "kv"}),
        ("gradient", (), {}),
        ("gradient", ("--signed",), {"signed": True}),
        ("gradient", ("--normalize", "layer"), {"normalize": "layer"}),
        ("confidence", (), {}),
        ("magnitude", (), {}),
        ("random", ("--seed", 5), {"seed": 5}),
    ],
)
def test_csv_holds_the_numbers_of_the_python_interface(
    cli: Cli, llama: Path, texts: Path, tmp_path: Path, method: str, flags: tuple[object, ...], options: dict[str, Any]
) -> None:
    out = tmp_path / "s.csv"
    found = cli("importance", llama, "--method", method, "--data", texts, "--out", out, *flags)
    assert found.code == 0, found.err
    expected = _scores(llama, texts, method, **options)
    rows = _rows(out)
    assert list(rows[0]) == ["site", "layer", "head", "score", "sem", "n"]
    assert [(row["site"], int(row["layer"]), int(row["head"])) for row in rows] == expected.columns()
    assert np.array([float(row["score"]) for row in rows]) == pytest.approx(expected.flat(), rel=1e-12)
    if method in ("magnitude", "random"):
        assert {(row["sem"], row["n"]) for row in rows} == {("", "")}
    else:
        assert {row["n"] for row in rows} == {str(len(LINES))}
        assert all(float(row["sem"]) >= 0 for row in rows)


def test_provenance(cli: Cli, gpt2: Path, texts: Path, tmp_path: Path) -> None:
    out = tmp_path / "s.csv"
    command = ("importance", gpt2, "--method", "ablation", "--data", texts, "--out", out, "--json")
    found = cli(*command)
    beside = json.loads((tmp_path / "s.json").read_text(encoding="utf-8"))
    wanted = {
        "fingerprint",
        "method",
        "metric",
        "ablation",
        "data_hash",
        "split",
        "seed",
        "versions",
        "baseline",
        "reliability",
        "seconds",
        "cached",
    }
    assert wanted <= set(beside)
    result = found.json
    assert {name: result[name] for name in beside} == beside
    assert (result["out"], result["json"]) == (str(out), str(tmp_path / "s.json"))
    assert (result["cached"], result["units"], result["split"]) == (0, 5, "all")
    assert result["baseline"] == pytest.approx(cli("evaluate", gpt2, "--data", texts, "--json").json["baseline"])
    assert "scores" not in result
    again = cli(*command).json
    assert (again["cached"], again["reliability"]) == (5, result["reliability"])
    afresh = cli(*command, "--no-resume").json
    assert afresh["cached"] == 0


def test_one_sentence_on_stability(cli: Cli, gpt2: Path, texts: Path) -> None:
    found = cli("importance", gpt2, "--method", "gradient", "--data", texts, "--json")
    (line,) = found.lines
    assert "reliability" in line or line.startswith("No ranking")
    assert len(found.json["scores"]) == 20
    two = cli("importance", gpt2, "--method", "gradient", "--data", texts, "--limit", 2, "--json")
    assert (two.json["reliability"], len(two.lines)) == (None, 1)
    weights = cli("importance", gpt2, "--method", "magnitude", "--json")
    assert weights.lines == ["No data were needed for magnitude, so there is no split-half reliability."]


def test_no_signal_is_said(cli: Cli, gpt2: Path, tmp_path: Path) -> None:
    path = tmp_path / "same.txt"
    path.write_text("the cat sat\n" * 6, encoding="utf-8")
    found = cli("importance", gpt2, "--method", "ablation", "--data", path)
    assert found.code == 0
    (line,) = found.lines
    assert line.startswith("No ranking: ")
    assert "most important" not in found.out


def test_text_for_people(cli: Cli, gpt2: Path, texts: Path) -> None:
    from headlens.heads import HeadSet  # noqa: F401 - the labels come from the library

    found = cli("importance", gpt2, "--method", "magnitude")
    best = max(_scores(gpt2, texts, "magnitude").ranked(), key=lambda _: 0)
    assert found.code == 0
    first = found.out.splitlines().index("most important")
    assert f"L{best[1]}H{best[2]}" in "".join(found.out.splitlines()[first : first + 5])
    assert "Frobenius norm" in found.out


def test_options_without_effect_are_named(cli: Cli, gpt2: Path, texts: Path) -> None:
    found = cli("importance", gpt2, "--method", "random", "--ablation", "mean", "--signed", "--data", texts)
    assert found.code == 0
    notes = [line for line in found.lines if line.startswith("note: ")]
    assert [note.split()[1] for note in notes] == ["--ablation", "--signed", "--data"]


def test_default_data_is_the_score_half(cli: Cli, gpt2: Path) -> None:
    from headlens.data.builtin import default_set

    found = cli("importance", gpt2, "--method", "gradient", "--json").json
    assert (found["data"], found["split"]) == (default_set("causal-lm"), "score")


def test_drift_has_no_first_order_score(cli: Cli, bert: Path, texts: Path) -> None:
    found = cli("importance", bert, "--method", "gradient", "--data", texts)
    assert (found.code, len(found.lines)) == (2, 1)
    assert "drift" in found.err
    exact = cli("importance", bert, "--method", "ablation", "--data", texts, "--json").json
    assert exact["metric"] == "drift"
    assert all(row["score"] > 0 for row in exact["scores"])


def test_seq2seq_scores_have_three_sites(cli: Cli, t5: Path, pairs: Path, tmp_path: Path) -> None:
    assert cli("importance", t5, "--method", "ablation", "--data", pairs, "--out", tmp_path / "s.csv").code == 0
    rows = _rows(tmp_path / "s.csv")
    assert [row["site"] for row in rows[::8]] == ["enc", "dec", "cross"]
    row = next(row for row in rows if (row["site"], row["layer"], row["head"]) == ("cross", "1", "2"))
    effect = cli("evaluate", t5, "--data", pairs, "--off", "cross.L1H2", "--json").json["delta"]
    assert float(row["score"]) == pytest.approx(effect, abs=1e-5)


def test_results_survive_a_full_disk(
    cli: Cli, gpt2: Path, texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ("importance", gpt2, "--method", "ablation", "--data", texts, "--out", tmp_path / "s.csv", "--json")

    def full(*_: object, **__: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_text", full)
        found = cli(*command)
    assert (found.code, found.out, len(found.lines)) == (2, "", 1)
    assert "No space left on device" in found.err
    assert "stored" in found.err
    assert cli(*command).json["cached"] == 5


def test_store_that_cannot_be_written(
    cli: Cli, gpt2: Path, texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("", encoding="utf-8")
    monkeypatch.setenv("HEADLENS_CACHE", str(blocked / "inside"))
    found = cli("importance", gpt2, "--method", "ablation", "--data", texts, "--json")
    assert (found.code, found.out, len(found.lines)) == (2, "", 1)
    assert "HEADLENS_CACHE" in found.err


def test_cache_variable_says_where_results_are_kept(
    cli: Cli, gpt2: Path, texts: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli("importance", gpt2, "--method", "ablation", "--data", texts)
    assert len(list((cache / "store").glob("??/*"))) == 6  # five layers and the baseline
    other = tmp_path / "elsewhere"
    monkeypatch.setenv("HEADLENS_CACHE", str(other))
    assert cli("importance", gpt2, "--method", "ablation", "--data", texts, "--json").json["cached"] == 0
    assert (other / "store").is_dir()


def test_ablation_equals_single_evaluations(cli: Cli, gpt2: Path, texts: Path) -> None:
    rows = cli("importance", gpt2, "--method", "ablation", "--data", texts, "--json").json["scores"]
    for row in rows[3::7]:
        label = f"L{row['layer']}H{row['head']}"
        single = cli("evaluate", gpt2, "--data", texts, "--off", label, "--json").json
        assert row["score"] == pytest.approx(single["delta"], abs=1e-5)
        assert row["sem"] == pytest.approx(single["delta_sem"], rel=1e-3)
        assert math.isfinite(row["score"])


@pytest.mark.models
def test_packaged_model_by_weights(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HEADLENS_CACHE")  # the conversion is kept between runs
    found = cli("importance", "smollm2-135m", "--method", "magnitude", "--out", tmp_path / "s.csv", "--json")
    assert found.code == 0, found.err
    rows = _rows(tmp_path / "s.csv")
    assert len(rows) == 270
    assert all(float(row["score"]) > 0 for row in rows)
    assert found.json["model"] == "smollm2-135m"


@pytest.mark.models
def test_packaged_model_by_ablation(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HEADLENS_CACHE")
    path = tmp_path / "texts.txt"
    path.write_text("The cat sat on the mat.\nWater boils at one hundred degrees.\nLast line.\n", encoding="utf-8")
    options = ("--data", path, "--limit", 2, "--max-tokens", 8, "--no-resume")
    found = cli("importance", "smollm2-135m", "--method", "ablation", *options, "--json")
    assert found.code == 0, found.err
    result = found.json
    assert (result["n"], len(result["scores"]), result["units"]) == (2, 270, 30)
    row = result["scores"][0]
    single = cli("evaluate", "smollm2-135m", *options, "--off", f"L0H{row['head']}", "--json").json
    assert row["score"] == pytest.approx(single["delta"], abs=1e-4)
