"""``headlens prune``: the folder that it writes is a model for every other command, and mistakes are told in a line."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch

import headlens
from tests.unit.cli.conftest import Cli, finish, start

CONTRACT = {"parameters_before", "parameters_after", "bytes_before", "bytes_after", "max_abs_logit_difference"}


def parameters(folder: Path) -> int:
    """Counted from the file."""
    from safetensors.torch import load_file

    return sum(tensor.numel() for tensor in load_file(folder / "model.safetensors").values())


def test_the_object_of_the_contract(cli: Cli, gpt2: Path, tmp_path: Path) -> None:
    out = tmp_path / "cut"
    result = cli("prune", gpt2, "--off", "L0H1,L3", "--out", out, "--json")
    assert result.code == 0, result.err
    found = result.json
    assert found.keys() >= CONTRACT
    head = 4 * 16 * 4 + 3 * 4  # q, k, v and o, and the biases of q, k and v
    assert found["parameters_before"] - found["parameters_after"] == 5 * head
    assert found["parameters_after"] == parameters(out)
    assert found["bytes_before"] == (gpt2 / "model.safetensors").stat().st_size
    assert found["bytes_after"] == (out / "model.safetensors").stat().st_size
    assert found["max_abs_logit_difference"] <= 1e-4
    assert (found["heads_before"], found["heads_after"]) == (20, 15)
    assert found["off"] == "L0H1,L3"


@pytest.mark.parametrize("name", ["gpt2", "llama", "t5", "bert"])
def test_every_command_takes_the_folder(
    name: str, cli: Cli, texts: Path, pairs: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """A ragged cut with a whole layer gone; what it loses is what the source loses with these heads off."""
    model: Path = request.getfixturevalue(name)
    out, data = tmp_path / "cut", pairs if name == "t5" else texts
    off = "enc.L0H1,dec.L1,cross.L0H0" if name == "t5" else "L0H1,L1"
    assert cli("prune", model, "--off", off, "--out", out).code == 0
    seen = cli("inspect", out, "--json").json
    per_layer = [site["heads_per_layer"] for site in seen["sites"]]
    assert per_layer == ([[3, 4], [4, 0], [3, 4]] if name == "t5" else [[3, 0] + [4] * (len(per_layer[0]) - 2)])
    assert any("a cut model" in note for note in seen["notes"])
    masked = cli("evaluate", model, "--data", data, "--off", off, "--json").json
    mine = cli("evaluate", out, "--data", data, "--json").json
    if name != "bert":  # a drift is measured from the model itself
        assert mine["value"] == pytest.approx(masked["value"], abs=1e-4)
    for method in ("ablation", "magnitude", "output-norm"):
        table = tmp_path / f"{method}.csv"
        done = cli("importance", out, "--method", method, "--data", data, "--out", table)
        assert done.code == 0, done.err
        rows = list(csv.DictReader(table.open(encoding="utf-8")))
        labels = {(row["site"], int(row["layer"]), int(row["head"])) for row in rows}
        site = "enc" if name == "t5" else "self"
        assert (site, 0, 1) not in labels
        assert (site, 0, 2) in labels
    done = cli("importance", out, "--method", "output-norm", "--unit", "kv", "--data", data)
    assert done.code == 0, done.err
    picture = tmp_path / "a.npz"
    target = ("--target", "the dog sat") if name == "t5" else ()
    done = cli("attention", out, "--prompt", "the cat sat on the mat", *target, "--out", picture)
    assert done.code == 0, done.err
    pattern = np.load(picture)["pattern_enc" if name == "t5" else "pattern_self"]
    assert np.isnan(pattern[0, 1]).all()
    assert np.allclose(pattern[0, 2].sum(-1), 1)
    gone = cli("evaluate", out, "--data", data, "--off", "enc.L0H1" if name == "t5" else "L0H1")
    assert gone.code == 2
    assert "gone" in gone.err


def test_a_method_takes_the_least_important_heads(cli: Cli, gpt2: Path, texts: Path, tmp_path: Path) -> None:
    table, out = tmp_path / "s.csv", tmp_path / "cut"
    assert cli("importance", gpt2, "--method", "gradient", "--data", texts, "--out", table).code == 0
    result = cli("prune", gpt2, "--method", "gradient", "--fraction", "0.33", "--data", texts, "--out", out, "--json")
    assert result.code == 0, result.err
    rows = sorted(csv.DictReader(table.open(encoding="utf-8")), key=lambda row: float(row["score"]))
    lowest = {f"L{row['layer']}H{row['head']}" for row in rows[:7]}  # 0.33 of 20 is 6.6
    facts = json.loads((out / "headlens.json").read_text(encoding="utf-8"))
    lens = headlens.open_model(str(gpt2))
    assert {head.label for head in lens.topology.parse(facts["off"])} == lowest
    assert facts["choice"]["method"] == "gradient"
    assert facts["choice"]["count"] == 7
    assert facts["choice"]["data_hash"]
    assert facts["source"]["fingerprint"] == lens.fingerprint
    assert "No ranking: the model is no better than guessing" in result.err  # its weights are random


def test_heads_are_chosen_on_the_score_half(cli: Cli, gpt2: Path, tmp_path: Path) -> None:
    out = tmp_path / "cut"
    done = cli("prune", gpt2, "--method", "gradient", "--fraction", "0.1", "--limit", "4", "--out", out, "--json")
    assert done.code == 0, done.err
    assert json.loads((out / "headlens.json").read_text(encoding="utf-8"))["choice"]["split"] == "score"


def test_a_floor_keeps_heads_in_every_layer(cli: Cli, gpt2: Path, tmp_path: Path) -> None:
    out = tmp_path / "cut"
    more = ("--method", "magnitude", "--fraction", "0.7", "--floor", "1")
    assert cli("prune", gpt2, *more, "--out", out).code == 0
    assert min(cli("inspect", out, "--json").json["sites"][0]["heads_per_layer"]) == 1
    refused = cli("prune", gpt2, "--method", "magnitude", "--fraction", "0.8", "--floor", "1", "--out", out)
    assert refused.code == 2
    said = "a floor of 1 in each layer leaves 15 to choose from, so a fraction of at most 0.75"
    assert refused.lines[-1].endswith(said)
    assert cli("prune", gpt2, "--method", "magnitude", "--fraction", "0.75", "--floor", "1", "--out", out).code == 0


def test_whole_groups(cli: Cli, llama: Path, tmp_path: Path) -> None:
    out = tmp_path / "cut"
    result = cli("prune", llama, "--off", "L0G1", "--unit", "kv", "--out", out, "--json")
    assert result.json["kv_groups_kept_for_a_part"] == []
    assert result.json["parameters_before"] - result.json["parameters_after"] == 4 * 16 * 4 + 2 * 16 * 4
    part = cli("prune", llama, "--off", "L0H3", "--unit", "kv", "--out", tmp_path / "no")
    assert part.code == 2
    assert "only a part of the KV group L0G1" in part.err
    more = ("--method", "magnitude", "--fraction", "0.5", "--unit", "kv")
    chosen = cli("prune", llama, *more, "--out", tmp_path / "half", "--json")
    assert chosen.json["heads_after"] == 4
    assert chosen.json["kv_groups_kept_for_a_part"] == []


def test_a_part_of_a_group_is_said_to_save_nothing_there(cli: Cli, llama: Path, tmp_path: Path) -> None:
    result = cli("prune", llama, "--off", "L0H3", "--out", tmp_path / "cut", "--json")
    assert result.json["kv_groups_kept_for_a_part"] == ["L0G1"]
    assert result.json["parameters_before"] - result.json["parameters_after"] == 2 * 16 * 4
    assert "nothing is saved there" in result.err
    assert "nothing is saved" in (tmp_path / "cut" / "README.md").read_text(encoding="utf-8")


def test_masked_keeps_the_shape(cli: Cli, gpt2: Path, tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM

    out = tmp_path / "masked"
    found = cli("prune", gpt2, "--off", "L0H1,L3", "--masked", "--out", out, "--json").json
    assert found["parameters_after"] == found["parameters_before"]
    assert found["loads_with"] == "AutoModelForCausalLM"
    plain: Any = AutoModelForCausalLM.from_pretrained(gpt2)
    with torch.no_grad():
        plain.transformer.h[0].attn.c_proj.weight[4:8] = 0
        plain.transformer.h[3].attn.c_proj.weight[:] = 0
        ids = torch.tensor([[2, 3, 4, 5]])
        assert torch.equal(AutoModelForCausalLM.from_pretrained(out)(ids).logits, plain(ids).logits)


def test_python_gets_the_plain_model(cli: Cli, gpt2: Path, tmp_path: Path) -> None:
    assert cli("prune", gpt2, "--off", "L0,L1H2", "--out", tmp_path / "cut").code == 0
    model: Any = headlens.load(str(tmp_path / "cut"))
    assert type(model).__qualname__ == "GPT2LMHeadModel"
    lens = headlens.open_model(str(gpt2))
    ids = torch.tensor([[7, 8, 9]])
    more: dict[str, Any] = {"max_new_tokens": 5, "min_new_tokens": 5, "do_sample": False}
    with torch.no_grad(), lens.off("L0,L1H2"):
        wanted = cast(Any, lens.model).generate(ids, use_cache=False, **more)
    assert torch.equal(model.generate(ids, **more), wanted)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "say which heads go, in one way"),
        (("--off", "L0H1", "--method", "magnitude", "--fraction", "0.1"), "say which heads go, in one way"),
        (("--off", "L0H1", "--fraction", "0.1"), "leave them out beside --off"),
        (("--method", "magnitude"), "needs --fraction F"),
        (("--method", "magnitude", "--fraction", "1.5"), "give a share from 0 to 1"),
        (("--method", "magnitude", "--fraction", "1"), "every head of the model was chosen"),
        (("--method", "astrology", "--fraction", "0.1"), "astrology"),
        (("--off", "L0,L1,L2,L3,L4"), "every head of the model was chosen"),
        (("--off", "L9H1"), "this model has layers L0 to L4"),
        (("--off", "everything"), "is not a head"),
    ],
)
def test_mistakes_are_told_in_one_line(
    arguments: tuple[str, ...], message: str, cli: Cli, gpt2: Path, tmp_path: Path
) -> None:
    result = cli("prune", gpt2, *arguments, "--out", tmp_path / "cut")
    assert result.code == 2
    assert message in result.err
    assert result.lines[-1].startswith("error: ")
    assert result.out == ""
    assert not (tmp_path / "cut").exists()


def test_out_is_checked_before_anything_is_opened(cli: Cli, gpt2: Path, tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.mkdir()
    (taken / "thesis.txt").write_text("years", encoding="utf-8")
    refused = cli("prune", gpt2, "--off", "L0", "--out", taken)
    assert refused.code == 2
    assert "--overwrite" in refused.err
    assert (taken / "thesis.txt").read_text(encoding="utf-8") == "years"
    assert cli("prune", gpt2, "--off", "L0", "--out", tmp_path / "no" / "where").code == 2
    assert cli("prune", gpt2, "--off", "L0").code == 2
    assert cli("prune", gpt2, "--off", "L0", "--out", taken, "--overwrite").code == 0
    assert not (taken / "thesis.txt").exists()
    assert cli("prune", gpt2, "--off", "L1", "--out", taken).code == 0  # our own folder


def test_a_folder_may_be_cut_in_place_and_gone_heads_are_gone(cli: Cli, gpt2: Path, tmp_path: Path) -> None:
    out = tmp_path / "cut"
    assert cli("prune", gpt2, "--off", "L0H1", "--out", out).code == 0
    again = cli("prune", out, "--off", "L0H1", "--out", tmp_path / "no")
    assert (again.code, again.lines) == (2, ["error: L0H1 is gone: it was removed when this model was cut"])
    assert cli("prune", out, "--off", "L0H2", "--out", out).code == 0
    facts = json.loads((out / "headlens.json").read_text(encoding="utf-8"))
    assert facts["heads"]["self"][0]["heads"] == [0, 3]
    assert facts["source"]["before"]["off"] == "L0H1"


def test_an_altered_folder_is_told(cli: Cli, gpt2: Path, tmp_path: Path) -> None:
    out = tmp_path / "cut"
    assert cli("prune", gpt2, "--off", "L0H1", "--out", out).code == 0
    weights = out / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-4] + b"\0\0\0\0")
    result = cli("inspect", out)
    assert result.code == 2
    assert len(result.lines) == 1
    assert "checksum" in result.err


def test_a_choice_without_signal_is_called_chance(cli: Cli, gpt2: Path, tmp_path: Path) -> None:
    data = tmp_path / "one.txt"
    data.write_text("the cat sat\n" * 4, encoding="utf-8")
    more = ("--method", "ablation", "--fraction", "0.2", "--data", data)
    result = cli("prune", gpt2, *more, "--out", tmp_path / "cut")
    assert result.code == 0
    assert "No ranking: there is only one distinct example" in result.err
    assert "as good as drawn at random" in result.err
    assert "only one distinct example" in (tmp_path / "cut" / "README.md").read_text(encoding="utf-8")


def test_nothing_to_cut_is_said(cli: Cli, gpt2: Path, tmp_path: Path) -> None:
    result = cli("prune", gpt2, "--off", "none", "--out", tmp_path / "cut", "--json")
    assert result.code == 0
    assert result.json["parameters_after"] == result.json["parameters_before"]
    assert "no head was taken out" in result.err


def test_what_people_read(cli: Cli, llama: Path, tmp_path: Path) -> None:
    result = cli("prune", llama, "--off", "L0G1,L1G0", "--out", tmp_path / "cut")
    assert result.code == 0
    for part in ("heads", "parameters", "bytes of weights", "Taken out: L0H2,L0H3,L1H0,L1H1.", "from_pretrained"):
        assert part in result.out


def test_pictures(cli: Cli, vit: Path, tmp_path: Path) -> None:
    result = cli("prune", vit, "--off", "L0H1,L1H0", "--out", tmp_path / "cut", "--json")
    assert result.code == 0, result.err
    assert result.json["loads_with"] == "AutoModelForImageClassification"
    assert (tmp_path / "cut" / "preprocessor_config.json").is_file()


def test_a_disk_that_is_really_full(gpt2: Path, tmp_path: Path) -> None:
    """A limit on the size of files stands for it: the kernel refuses a write in the middle of the weights."""
    script = (
        "import resource, signal\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (9000, 9000))"
    )
    result = finish(start("prune", gpt2, "--off", "L0", "--out", tmp_path / "cut", script=script))
    assert result.code == 2, result.err
    assert "was not written" in result.lines[-1]
    assert list(tmp_path.glob("*cut*")) == []
