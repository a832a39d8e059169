"""``curve``: its file and object, its end points against ``evaluate``, and what it refuses."""

from __future__ import annotations

import csv
import io
import json
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from .conftest import Cli, finish, start


def rows_of(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"))))


def test_file_and_end_points(cli: Cli, gpt2: Path, texts: Path, tmp_path: Path) -> None:
    out = tmp_path / "c.csv"
    command = ("curve", gpt2, "--method", "gradient", "--data", texts, "--split", "held-out", "--out", out)
    found = cli(*command, "--step", "0.25", "--random", 2, "--json")
    assert found.code == 0, found.err
    rows = rows_of(out)
    assert list(rows[0])[:5] == ["fraction", "heads_off", "series", "seed", "loss"]
    assert {(row["series"], row["seed"]) for row in rows} == {
        *(("ranked", ""), ("reverse", ""), ("random", "0"), ("random", "1"))
    }
    assert [float(row["fraction"]) for row in rows[:5]] == [0, 0.25, 0.5, 0.75, 1]
    assert [int(row["heads_off"]) for row in rows[:5]] == [0, 5, 10, 15, 20]
    for row in (rows[0], rows[2], rows[4]):
        wanted = cli("evaluate", gpt2, "--off", row["off"], "--data", texts, "--split", "held-out", "--json").json
        assert float(row["loss"]) == wanted["value"]
        assert float(row["loss_sem"]) == pytest.approx(wanted["delta_sem"], rel=1e-12)
        assert float(row["perplexity"]) == pytest.approx(wanted["perplexity"], rel=1e-12)
        assert float(row["accuracy"]) == wanted["accuracy"]
        assert float(row["kl"]) == wanted["kl"]
    beside = json.loads((tmp_path / "c.json").read_text(encoding="utf-8"))
    result = found.json
    assert {name: result[name] for name in beside} == beside
    assert result["held_out"] is True
    assert result["passes"] == 14  # 3 steps of 4 orders, none off and all off
    assert result["scores"]["method"] == "gradient"
    assert [one["budget"] for one in result["budgets"]] == ["loss+1%", "loss+5%", "loss+10%"]
    assert result["chance"]["verdict"] in ("better", "worse", "not told apart")
    assert "points" not in result
    again = cli(*command, "--step", "0.25", "--random", 2, "--json").json
    assert (again["passes"], again["cached"]) == (0, 14)
    afresh = cli(*command, "--step", "0.25", "--random", 2, "--json", "--no-resume").json
    assert afresh["passes"] == 14


def test_without_a_file_the_points_are_in_the_object(cli: Cli, bert: Path, texts: Path) -> None:
    found = cli("curve", bert, "--method", "ablation", "--data", texts, "--step", 0.5, "--random", 0, "--json").json
    assert (found["out"], found["figure"], found["chance"]["verdict"]) == (None, "drift", "not measured")
    assert [point["fraction"] for point in found["points"]] == [0, 0.5, 1] * 2
    assert {(point["loss"], point["seed"]) for point in found["points"]} == {(None, None)}
    assert all(point["drift"] is not None for point in found["points"])


def test_a_file_is_whole_unless_asked_and_that_is_said(cli: Cli, gpt2: Path, texts: Path) -> None:
    command = ("curve", gpt2, "--method", "gradient", "--data", texts, "--step", 1, "--random", 0, "--json")
    found = cli(*command)
    assert (found.json["held_out"], found.json["examples"]) == (False, 6)
    assert "chosen and reported on the same examples" in found.err
    whole = cli("evaluate", gpt2, "--data", texts, "--json").json
    assert found.json["points"][0]["loss"] == whole["baseline"]
    split = cli(*command, "--split", "held-out")
    assert (split.json["held_out"], split.json["examples"]) == (True, 3)
    assert "same examples" not in split.err
    other = cli(*command, "--score-data", "stories")
    assert (other.json["held_out"], other.json["examples"]) == (True, 6)
    assert other.json["scores"]["data"] == "stories"
    weights = cli("curve", gpt2, "--method", "magnitude", "--data", texts, "--step", 1, "--random", 0)
    assert "same examples" not in weights.err


def test_all_series_and_budgets_for_people(cli: Cli, llama: Path, texts: Path) -> None:
    options = ("--step", 0.5, "--random", 2, "--greedy", "--gates", "0.01,5", "--gate-steps", 5, "--rescore")
    found = cli(
        *("curve", llama, "--method", "gradient", "--data", texts, "--split", "held-out", "--unit", "kv", *options),
        *("--budget", "loss+1000%", "--budget", "accuracy-0.5"),
    )
    assert found.code == 0, found.err
    assert "Learned gates, penalty 0.01" in found.out
    assert "gates were undecided and rounded" in " ".join(found.out.split())
    assert "greedy" in found.out
    assert "Within loss+1000%" in found.out
    assert "2 random orders" in found.out


def test_one_site_and_bleu(cli: Cli, t5: Path, pairs: Path) -> None:
    command = ("curve", t5, "--method", "magnitude", "--data", pairs, "--site", "cross", "--step", 1, "--random", 1)
    found = cli(*command, "--metric", "bleu", "--json")
    assert found.code == 0, found.err
    assert (found.json["figure"], found.json["heads"]) == ("bleu", 8)
    for point in found.json["points"][:2]:
        wanted = cli("evaluate", t5, "--metric", "bleu", "--off", point["off"], "--data", pairs, "--json").json
        assert point["bleu"] == pytest.approx(wanted["value"], abs=1e-9)
    assert found.json["points"][1]["off"] == "cross.L0,cross.L1"


def test_all_but_one(cli: Cli, gpt2: Path, texts: Path, tmp_path: Path) -> None:
    out = tmp_path / "one.csv"
    found = cli("curve", gpt2, "--all-but-one", "--data", texts, "--split", "held-out", "--out", out, "--json")
    assert found.code == 0, found.err
    rows = rows_of(out)
    assert [int(row["layer"]) for row in rows] == list(range(5))
    assert (tmp_path / "one.json").is_file()
    kept = rows[2]["kept"]
    off = ",".join(f"L2H{head}" for head in range(4) if f"L2H{head}" != kept)
    wanted = cli("evaluate", gpt2, "--off", off, "--data", texts, "--split", "held-out", "--json").json
    assert float(rows[2]["delta"]) == pytest.approx(wanted["delta"], abs=1e-12)
    assert float(rows[2]["loss"]) == wanted["value"]
    assert found.json["layers"][2]["kept"] == kept
    shown = cli("curve", gpt2, "--all-but-one", "--data", texts)
    assert "layers are not noticeably worse" in shown.out


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "--method NAME, one of ablation"),
        (("--method", "gradiant"), "did you mean gradient"),
        (("--method", "gradient", "--step", "0"), "--step 0"),
        (("--method", "gradient", "--step", "2"), "--step 2"),
        (("--method", "gradient", "--budget", "loss-1%"), "loss gets worse as it rises"),
        (("--method", "gradient", "--budget", "cheap"), "is not understood"),
        (("--method", "gradient", "--gates", "a,b"), "give penalties as numbers"),
        (("--method", "gradient", "--gates", "-1"), "penalty"),
        (("--method", "gradient", "--site", "cross"), "no site 'cross'"),
        (("--method", "gradient", "--random", "-1"), "--random"),
        (("--method", "gradient", "--out", "c.txt"), "ends in .csv"),
        (("--method", "gradient", "--metric", "bleu"), "bleu"),
        (("--method", "gradient", "--metric", "accuracy"), "use --method ablation"),
        (("--method", "gradient", "--score-data", "nowhere.txt"), "nowhere.txt"),
        (("--method", "ablation", "--limit", "1", "--split", "held-out", "--ablation", "resample"), "2 examples"),
    ],
)
def test_mistakes_are_one_line(cli: Cli, gpt2: Path, texts: Path, options: tuple[Any, ...], said: str) -> None:
    found = cli("curve", gpt2, "--data", texts, *options)
    assert (found.code, found.out) == (2, "")
    assert found.lines[-1].startswith("error: ")
    assert said in found.lines[-1]


def test_budgets_of_figures_that_a_model_has_not(cli: Cli, bert: Path, texts: Path) -> None:
    found = cli("curve", bert, "--method", "magnitude", "--data", texts, "--budget", "loss+1%", "--step", 1)
    assert found.code == 2
    assert "no loss for embedding models" in found.err


def test_one_example(cli: Cli, gpt2: Path, tmp_path: Path) -> None:
    path = tmp_path / "one.txt"
    path.write_text("the cat sat on the mat\n", encoding="utf-8")
    found = cli("curve", gpt2, "--method", "gradient", "--data", path, "--step", 0.5, "--json")
    assert found.code == 0, found.err
    assert found.json["points"][1]["loss_sem"] is None
    assert found.json["budgets"][0]["series"]["ranked"]["sure"] is None


def whole_entries(cache: Path) -> list[Path]:
    """What is in the store under its final name, so neither half written files nor folders."""
    return [path for path in (cache / "store").glob("??/*") if len(path.name) == 64]


def test_interrupted_and_resumed(cli: Cli, gpt2: Path, texts: Path, cache: Path) -> None:
    waits = (  # once three entries are stored, so that it can be interrupted there on any machine
        "import time\nfrom headlens.paths import store_dir\nfrom headlens.pruning.measure import SetMeasure\n"
        "plain = SetMeasure.report\ndef report(self, pairs):\n    plain(self, pairs)\n"
        "    if sum(len(path.name) == 64 for path in store_dir().glob('??/*')) >= 3:\n        time.sleep(600)\n"
        "SetMeasure.report = report\n"
    )
    command = ("curve", gpt2, "--method", "magnitude", "--data", texts, "--step", "0.2", "--random", 1, "--json")
    process = start(*command, script=waits)
    deadline = time.monotonic() + 200
    while time.monotonic() < deadline and process.poll() is None and len(whole_entries(cache)) < 3:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    found = finish(process)
    assert found.code == 130
    assert "what was finished is stored; the same command resumes there" in found.lines[-1]
    kept = len(whole_entries(cache))  # counted when nobody writes any more
    again = cli(*command)
    assert again.code == 0
    assert 3 <= again.json["cached"] <= kept
    assert len(whole_entries(cache)) > kept


def test_a_budget_of_a_figure_that_is_not_there_is_told_before_the_work(
    cli: Cli, gpt2: Path, bert: Path, texts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def work(*_: object, **__: object) -> None:
        raise AssertionError("nothing may be computed")

    monkeypatch.setattr("headlens.cli.curve_work.CurveWork.curve", work)
    for model, budget in ((gpt2, "bleu-1"), (bert, "loss+1%"), (bert, "perplexity+2"), (bert, "kl+0.1")):
        figure = budget.rstrip("+-.0123456789%")
        found = cli("curve", model, "--method", "magnitude", "--data", texts, "--budget", budget)
        assert found.code == 2
        assert found.lines[-1].startswith(f"error: there is no {figure} for ")
