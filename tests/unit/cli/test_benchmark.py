"""``benchmark``: its object on tiny models, and what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headlens.pruning import memory_probe
from headlens.pruning.memory_probe import Memory, MemoryAsk

from .conftest import Cli

QUICK = ("--repeats", 3, "--prompt-tokens", 6, "--new-tokens", 2, "--batch-sizes", "1,2")


def test_full_and_masked(cli: Cli, gpt2: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[MemoryAsk] = []
    # The processes that it starts are tested beside it; here only what it asks of them.
    monkeypatch.setattr(memory_probe, "peak_memory", lambda ask, on_wait: asked.append(ask) or Memory(100, 300, None))
    found = cli("benchmark", gpt2, "--off", "L0,L1H2", *QUICK, "--json")
    assert found.code == 0, found.err
    result = found.json
    assert result["masked"] == "L0,L1H2"
    full, masked = result["variants"]
    assert (full["name"], masked["name"]) == ("full", "masked")
    inspected = cli("inspect", gpt2, "--json").json
    assert full["parameters"] == masked["parameters"] == inspected["parameters"]
    assert full["bytes"] == (gpt2 / "model.safetensors").stat().st_size
    assert full["kv_bytes_per_token"] == 2 * 5 * 16 * 4
    assert (full["peak_memory_bytes"], full["memory_before_opening_bytes"]) == (300, 100)
    assert [(ask.model, ask.off, ask.batch, ask.prompt, ask.new) for ask in asked] == [
        *((str(gpt2), "none", 2, 6, 2), (str(gpt2), "L0,L1H2", 2, 6, 2))
    ]
    rows = {(row["variant"], row["phase"], row["batch"]): row for row in result["latency"]}
    names, phases = ("full", "full again", "masked"), ("prefill", "decode")
    assert set(rows) == {(name, phase, batch) for name in names for phase in phases for batch in (1, 2)}
    for (_, phase, batch), row in rows.items():
        assert row["low_seconds"] <= row["median_seconds"] <= row["high_seconds"]
        tokens = batch * (6 if phase == "prefill" else 1)
        assert row["tokens_per_second"] == pytest.approx(tokens / row["median_seconds"])
    assert {row["within_noise"] for row in result["latency"] if row["variant"] == "masked"} <= {True, False}
    assert any("Masking saves nothing" in note for note in result["notes"])


def test_two_models_and_encoders(cli: Cli, gpt2: Path, llama: Path, bert: Path, vit: Path) -> None:
    found = cli("benchmark", gpt2, llama, *QUICK, "--no-memory", "--json")
    assert found.code == 0, found.err
    assert [one["name"] for one in found.json["variants"]] == ["full", "other"]
    assert found.json["variants"][0]["peak_memory_bytes"] is None
    shown = cli("benchmark", bert, *QUICK, "--no-memory")
    assert shown.code == 0, shown.err
    assert "forward" in shown.out
    assert "the noise" in shown.out
    assert "decode  " not in shown.out
    pictures = cli("benchmark", vit, "--off", "L0H1", *QUICK, "--no-memory", "--json")
    assert pictures.code == 0, pictures.err
    assert {row["phase"] for row in pictures.json["latency"]} == {"forward"}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--off", "L9"), "layers L0 to L4"),
        (("--batch-sizes", "1,x"), "give whole numbers"),
        (("--batch-sizes", "0"), "at least 1"),
        (("--repeats", "1"), "--repeats"),
        (("--prompt-tokens", "500"), "use a shorter prompt"),
    ],
)
def test_mistakes_are_one_line(cli: Cli, gpt2: Path, options: tuple[Any, ...], said: str) -> None:
    found = cli("benchmark", gpt2, "--no-memory", *options)
    assert (found.code, found.out) == (2, "")
    assert found.lines[-1].startswith("error: ")
    assert said in found.lines[-1]


def test_a_second_model_that_is_nowhere(cli: Cli, gpt2: Path, tmp_path: Path) -> None:
    found = cli("benchmark", gpt2, tmp_path / "nowhere")
    assert found.code == 2
    assert "nowhere" in found.err
