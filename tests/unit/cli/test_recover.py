"""``headlens recover``: a folder that is a model, numbers that evaluate agrees with, and what survives a kill."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import pytest
import torch

from headlens.pruning.training import Training
from tests.unit.cli.conftest import Cli, finish, start
from tests.unit.pruning import recovery_toys as toys

FAST = ("--steps", "24", "--lr", "0.002", "--every", "6")


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained model."""
    return toys.trained(tmp_path_factory.mktemp("toys") / "full")


@pytest.fixture(scope="module")
def cut(full: Path) -> Path:
    """Its cut."""
    return toys.cut_of(full, full.parent / "cut")


@pytest.fixture(scope="module")
def text(full: Path) -> Path:
    """Lines."""
    return toys.text_file(full.parent / "lines.txt")


def weights(folder: Path) -> dict[str, torch.Tensor]:
    """All that is stored."""
    from safetensors.torch import load_file

    return load_file(folder / "model.safetensors")


def test_the_result_is_a_model_and_its_numbers_are_those_of_evaluate(
    cli: Cli, full: Path, cut: Path, text: Path, tmp_path: Path
) -> None:
    out = tmp_path / "better"
    result = cli("recover", cut, "--data", text, *FAST, "--out", out, "--json")
    assert result.code == 0, result.err
    found = result.json
    held_out = ("--data", text, "--split", "held-out", "--json")
    before, after, whole = (cli("evaluate", folder, *held_out).json for folder in (cut, out, full))
    assert found["loss_before"] == pytest.approx(before["value"], rel=1e-6)
    assert found["loss_after"] == pytest.approx(after["value"], rel=1e-6)
    assert found["loss_after"] < found["loss_before"] - 5 * found["delta_sem"]
    assert found["delta"] == pytest.approx(found["loss_after"] - found["loss_before"])
    assert [row["name"] for row in found["table"]] == ["full", "cut", "cut + recovered"]
    assert found["table"][0]["loss"] == pytest.approx(whole["value"], rel=1e-6)
    assert (found["steps"], found["steps_done"]) == (24, 24)
    assert [point["step"] for point in found["curve"]] == [0, 6, 12, 18, 24]
    assert found["curve"][found["best_step"] // 6]["best"]
    assert found["seconds"] > 0

    sidecar = json.loads((out / "headlens.json").read_text())
    cut_sidecar = json.loads((cut / "headlens.json").read_text())
    assert sidecar["kind"] == "recovered"
    for kept in ("heads", "off", "parameters_after"):
        assert sidecar[kept] == cut_sidecar[kept]
    sources = [(folder / told["source"]["model"]).resolve() for folder, told in ((out, sidecar), (cut, cut_sidecar))]
    assert sources == [full.resolve()] * 2
    assert sidecar["recovery"]["finished"]
    assert sidecar["recovery"]["after"] == found["loss_after"]
    assert cli("inspect", out, "--json").json["sites"] == cli("inspect", cut, "--json").json["sites"]
    assert "L0H0" in cli("evaluate", out, "--off", "L0H0").err
    card = (out / "README.md").read_text()
    assert f"{found['loss_after']:.4g}" in card
    assert sidecar["command"] in card


def test_the_control_is_in_the_answer(cli: Cli, cut: Path, text: Path, tmp_path: Path) -> None:
    command = ("recover", cut, "--data", text, *FAST, "--distill", "--control", 2, "--out", tmp_path / "d", "--json")
    result = cli(*command)
    assert result.code == 0, result.err
    names = [row["name"] for row in result.json["table"]]
    assert names == ["full", "cut", "cut + recovered", *["random cut", "random cut + recovered"] * 2]
    assert {row["heads"] for row in result.json["table"][1:]} == {2}
    assert result.json["objective"] == "distill"
    assert result.json["drift_after"] < result.json["drift_before"]
    assert any("random cuts of as many heads" in sentence for sentence in result.json["sentences"])
    kept = json.loads((tmp_path / "d" / "headlens.json").read_text())["recovery"]
    assert len(kept["table"]) == 7
    shown = cli(*command[:-1])
    assert shown.code == 0
    assert "random cut + recovered 2" in shown.out


def test_killed_in_the_middle_the_best_so_far_stays_and_the_same_command_goes_on(
    cli: Cli, cut: Path, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, whole = tmp_path / "killed", tmp_path / "whole"
    command = ("recover", cut, "--data", text, *FAST, "--out")
    slow = "import headlens.pruning.training as t, time\nstep = t.Training._step\n"
    slow += "t.Training._step = lambda self, n: (time.sleep(0.15 if n >= 6 else 0), step(self, n))[1]"
    process = start(*command, out, script=slow)
    deadline = time.monotonic() + 90
    while not (out / "headlens.json").is_file() and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(0.4)
    assert process.poll() is None
    process.send_signal(signal.SIGKILL)
    finish(process)

    held_out = ("--data", text, "--split", "held-out", "--json")
    assert cli("evaluate", out, *held_out).json["value"] < cli("evaluate", cut, *held_out).json["value"] - 0.1
    assert not json.loads((out / "headlens.json").read_text())["recovery"]["finished"]
    assert "Not finished" in (out / "README.md").read_text()

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        made: list[int] = []
        original = Training._step

        def counted(self: Training, number: int) -> float:
            made.append(number)
            return original(self, number)

        monkeypatch.setattr(Training, "_step", counted)
        again = cli(*command, out)
        assert again.code == 0, again.err
        assert made[0] >= 6
        assert made == list(range(made[0], 24))
        assert cli(*command, whole, "--no-resume").code == 0
    finally:
        torch.set_num_threads(threads)
    assert made[-24:] == list(range(24))
    one, other = weights(out), weights(whole)
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert json.loads((out / "headlens.json").read_text())["recovery"]["finished"]


def test_ctrl_c_says_where_the_best_is(cut: Path, text: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    slow = "import headlens.pruning.training as t, time\nstep = t.Training._step\n"
    slow += "t.Training._step = lambda self, n: (time.sleep(0.2 if n >= 6 else 0), step(self, n))[1]"
    process = start("recover", cut, "--data", text, *FAST, "--out", out, script=slow)
    deadline = time.monotonic() + 90
    while not (out / "headlens.json").is_file() and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    result = finish(process)
    assert result.code == 130
    assert result.lines[-1].startswith("cancelled: the best so far (step ")
    assert "the same command goes on" in result.lines[-1]


def test_mistakes_take_one_line(cli: Cli, full: Path, cut: Path, text: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    few = tmp_path / "few.txt"
    few.write_text("ant bee cat dog\n")
    masked = tmp_path / "masked"
    assert cli("prune", full, "--off", "L0H0", "--masked", "--out", masked).code == 0
    orphan = tmp_path / "orphan"
    orphan.mkdir()
    for path in cut.iterdir():
        (orphan / path.name).write_bytes(path.read_bytes())
    sidecar = json.loads((orphan / "headlens.json").read_text())
    sidecar["source"]["model"] = str(tmp_path / "gone")
    (orphan / "headlens.json").write_text(json.dumps(sidecar))
    cases = {
        ("recover", cut, "--data", few, "--out", out): "1 different example cannot be trained on, watched and reported",
        ("recover", cut, "--data", tmp_path / "no.txt", "--out", out): "no.txt",
        ("recover", cut, "--data", text, "--split", "all", "--out", out): "--held-out",
        ("recover", cut, "--data", text, "--out", cut): "is the folder of the model itself",
        ("recover", cut, "--data", text, "--out", tmp_path / "a" / "b"): "there is no folder",
        ("recover", cut, "--data", text, "--lr", "5", "--out", out): "learning rate",
        ("recover", cut, "--data", text, "--dtype", "bfloat16", "--out", out): "float32",
        ("recover", cut, "--data", text, "--steps", "0", "--out", out): "--steps",
        ("recover", cut, "--data", text): "--out",
        ("recover", masked, "--data", text, "--out", out): "would bring them back",
        ("recover", tmp_path / "nothing", "--out", out): "nothing",
        ("recover", orphan, "--data", text, "--distill", "--out", out): "--teacher",
        ("recover", cut, "--data", text, "--teacher", tmp_path / "gone", "--distill", "--out", out): "gone",
    }
    for command, words in cases.items():
        result = cli(*command)
        assert result.code == 2, (command, result)
        assert len(result.lines) == 1
        assert result.lines[0].startswith("error: ")
        assert words in result.lines[0]
        assert not result.out
    assert not out.exists()


def test_without_the_full_model_its_row_is_left_out_and_told(
    cli: Cli, full: Path, cut: Path, text: Path, tmp_path: Path
) -> None:
    orphan = tmp_path / "orphan"
    orphan.mkdir()
    for path in cut.iterdir():
        (orphan / path.name).write_bytes(path.read_bytes())
    sidecar = json.loads((orphan / "headlens.json").read_text())
    sidecar["source"]["model"] = str(tmp_path / "gone")
    (orphan / "headlens.json").write_text(json.dumps(sidecar))
    command = ("recover", orphan, "--data", text, "--steps", 2, "--json", "--out")
    result = cli(*command, tmp_path / "a")
    assert result.code == 0
    assert [row["name"] for row in result.json["table"]] == ["cut", "cut + recovered"]
    assert "left out of the comparison" in result.err
    named = cli(*command, tmp_path / "b", "--teacher", full)
    assert [row["name"] for row in named.json["table"]] == ["full", "cut", "cut + recovered"]
    assert "add --distill" in named.err
    # A model of that name with other weights is not taken for the one that was cut.
    sidecar["source"] = {"model": str(full), "fingerprint": "0" * 64}
    (orphan / "headlens.json").write_text(json.dumps(sidecar))
    refused = cli(*command, tmp_path / "c", "--distill")
    assert refused.code == 2
    assert "bit for bit" in refused.err


def test_a_recovered_model_may_be_recovered_again(cli: Cli, cut: Path, text: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    assert cli("recover", cut, "--data", text, *FAST, "--out", first).code == 0
    result = cli("recover", first, "--data", text, *FAST, "--out", second, "--json")
    assert result.code == 0
    sidecar = json.loads((second / "headlens.json").read_text())
    assert len(sidecar["earlier_recoveries"]) == 1
    assert sidecar["off"] == json.loads((cut / "headlens.json").read_text())["off"]
    assert [row["name"] for row in result.json["table"]] == ["full", "cut", "cut + recovered"]


def test_heads_that_were_chosen_on_what_is_reported_are_told(cli: Cli, full: Path, text: Path, tmp_path: Path) -> None:
    """A file is chosen on whole unless its halves are asked for; the report says it too."""
    said = "the heads were chosen on the all part of lines.txt"
    for part, told in ((("--split", "score"), False), ((), True)):
        cut = tmp_path / f"cut-{told}"
        made = cli("prune", full, "--method", "gradient", "--fraction", "0.25", "--data", text, *part, "--out", cut)
        assert made.code == 0, made.err
        found = cli("recover", cut, "--data", text, "--steps", "2", "--out", tmp_path / f"better-{told}", "--json")
        assert any(note.startswith(said) for note in found.json["notes"]) is told
        page = ("report", cut, "--data", text, "--split", "held-out", "--no-speed", "--samples", "0", "--no-scores")
        limits = cli(*page, "--out", tmp_path / "r.html", "--json").json["limits"]
        assert any(said[1:] in limit for limit in limits) is told
