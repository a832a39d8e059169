"""The commands that list what there is, and ``inspect``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from headlens.cli.output import plain

from .conftest import Cli


def test_models(cli: Cli) -> None:
    found = cli("models", "--json")
    assert (found.code, found.err) == (0, "")
    models = {model["name"]: model for model in found.json["models"]}
    assert list(found.json) == ["models"]
    wanted = {
        "name",
        "title",
        "family",
        "source",
        "task",
        "layers",
        "heads",
        "kv_heads",
        "parameters",
        "available",
        "note",
    }
    assert all(set(model) == wanted for model in models.values())
    assert (models["smollm2-135m"]["layers"], models["smollm2-135m"]["heads"]) == (30, 9)
    assert models["smollm2-135m"]["kv_heads"] == 3
    text = cli("models")
    assert text.code == 0
    assert all(name in text.out for name in models)


def test_methods(cli: Cli) -> None:
    from headlens.importance import METHODS

    found = cli("methods", "--json")
    assert (found.code, found.err, list(found.json)) == (0, "", ["methods"])
    assert [method["name"] for method in found.json["methods"]] == list(METHODS)
    for method in found.json["methods"]:
        assert set(method) == {"name", "title", "formula", "needs", "signed", "cost", "source"}
        assert isinstance(method["signed"], bool)
        assert method["formula"]
    assert all(name in cli("methods").out for name in METHODS)


def test_data(cli: Cli) -> None:
    from headlens.data.builtin import index, read_builtin

    found = cli("data", "--json")
    assert (found.code, found.err, list(found.json)) == (0, "", ["sets"])
    assert [row["name"] for row in found.json["sets"]] == [entry.name for entry in index()]
    first = found.json["sets"][0]
    assert {"name", "task", "splits", "tokens", "description"} <= set(first)
    assert first["splits"]["held-out"] == len(read_builtin(first["name"], "held-out").examples)
    assert first["name"] in cli("data").out


def test_inspect_a_model_with_kv_groups(cli: Cli, llama: Path) -> None:
    found = cli("inspect", llama, "--json")
    assert (found.code, found.err) == (0, "")
    wanted = {"name", "family", "task", "parameters", "dtype", "sites"}
    assert wanted <= set(found.json)
    assert (found.json["name"], found.json["task"], found.json["dtype"]) == (str(llama), "causal-lm", "float32")
    (site,) = found.json["sites"]
    assert {name: site[name] for name in ("site", "layers", "heads", "kv_heads", "d_head", "heads_per_layer")} == {
        "site": "self",
        "layers": 2,
        "heads": 4,
        "kv_heads": 2,
        "d_head": 4,
        "heads_per_layer": [4, 4],
    }
    from transformers import AutoModelForCausalLM

    assert found.json["parameters"] == AutoModelForCausalLM.from_pretrained(llama).num_parameters()


def test_inspect_a_model_with_three_sites(cli: Cli, t5: Path) -> None:
    found = cli("inspect", t5, "--json").json
    assert [site["site"] for site in found["sites"]] == ["enc", "dec", "cross"]
    text = cli("inspect", t5)
    assert text.code == 0
    assert "cross" in text.out


def test_inspect_in_another_precision(cli: Cli, bert: Path) -> None:
    found = cli("inspect", bert, "--dtype", "bfloat16", "--device", "cpu", "--json").json
    assert (found["dtype"], found["device"], found["task"]) == ("bfloat16", "cpu", "embedding")


def test_what_a_library_prints_does_not_reach_stdout(cli: Cli, gpt2: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from headlens import lens

    real = lens.open_model

    def talkative(*arguments: object, **options: object) -> object:
        import sys

        sys.stdout.write("Welcome to the library!\n")
        return real(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(lens, "open_model", talkative)
    found = cli("inspect", gpt2, "--json")
    assert found.json["name"] == str(gpt2)
    assert found.err == "Welcome to the library!\n"


def test_plain_json() -> None:
    value = {
        "nan": float("nan"),
        "inf": [np.float64("-inf"), 1.5],
        "array": np.array([[1.0, np.nan]], dtype=np.float32),
        "count": np.int64(3),
        "flag": np.bool_(True),
        "path": Path("a/b"),
        "none": None,
        5: True,
    }
    assert plain(value) == {
        "nan": None,
        "inf": [None, 1.5],
        "array": [[1.0, None]],
        "count": 3,
        "flag": True,
        "path": str(Path("a/b")),
        "none": None,
        "5": True,
    }
    assert type(plain(np.float64(0.5))) is float
