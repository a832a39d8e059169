"""``probes`` and ``replicate`` on tiny models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

from .conftest import Cli


@pytest.fixture(scope="module")
def zoo_like(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A decoder that says that it is made for small English, and has seen a little of it."""
    from random import Random

    from transformers import GPT2Config, GPT2LMHeadModel

    from headlens.zoo import english
    from headlens.zoo.vocabulary import english_tokenizer

    folder = tmp_path_factory.mktemp("zoo-like")
    tokenizer = english_tokenizer("causal")
    sizes: dict[str, Any] = {
        "n_layer": 2,
        "n_head": 2,
        "n_embd": 16,
        "n_positions": 128,
        "bos_token_id": 1,
        "eos_token_id": 2,
    }
    torch.manual_seed(0)
    config = GPT2Config(**sizes, vocab_size=len(tokenizer), initializer_range=0.3)
    config.headlens_data = "small-english"
    model = GPT2LMHeadModel(config)
    optimizer = torch.optim.Adam(model.parameters(), 0.02)
    rng = Random(0)
    for _ in range(20):
        ids = torch.tensor(tokenizer(english.text(english.story(rng).words))["input_ids"])[None]
        model(ids, labels=ids).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def test_all_on(cli: Cli, zoo_like: Path) -> None:
    from headlens import open_model
    from headlens.probes import probe

    found = cli("probes", zoo_like, "--limit", 6, "--json")
    assert found.code == 0
    names = [row["skill"] for row in found.json["skills"]]
    assert names[0] == "induction"
    assert "story-recipient" in names
    assert found.json["live"] is None
    again = probe(open_model(str(zoo_like)), "none", limit=6)
    assert [row["difference"]["value"] for row in found.json["skills"]] == pytest.approx(
        [each.difference.value for each in again.skills]
    )
    assert found.json["sentences"] == again.sentences()


def test_with_heads_off(cli: Cli, zoo_like: Path) -> None:
    found = cli("probes", zoo_like, "--off", "L1", "--skills", "story-count,story-idiom", "--limit", 8, "--json")
    assert found.code == 0
    assert found.json["off"] == "L1"
    assert [row["skill"] for row in found.json["skills"]] == ["story-count", "story-idiom"]
    live = cli("evaluate", zoo_like, "--live", "--off", "L1", "--json").json
    assert found.json["live"] == pytest.approx(live)
    for ablation in ("mean", "resample"):
        other = cli("probes", zoo_like, "--off", "L1", "--skills", "story-count", "--ablation", ablation, "--json")
        assert other.json["ablation"] == ablation


def test_tables_are_for_people(cli: Cli, zoo_like: Path) -> None:
    for more in ((), ("--off", "L0H1"), ("--carriers",)):
        found = cli("probes", zoo_like, "--skills", "story-count", "--limit", 8, *more)
        assert found.code == 0
        assert "Stories: count" in found.out


def test_carriers_to_a_file(cli: Cli, zoo_like: Path, tmp_path: Path) -> None:
    out = tmp_path / "c.csv"
    arguments = ("probes", zoo_like, "--carriers", "--skills", "story-count,story-quote", "--limit", 8, "--out", out)
    found = cli(*arguments, "--json")
    assert found.code == 0
    frame = pd.read_csv(out)
    assert set(frame["skill"]) == {"story-count", "story-quote"}
    assert len(frame) == 2 * 4
    assert [row["skill"] for row in found.json["skills"]] == ["story-count", "story-quote"]
    assert all(row["verdict"] for row in found.json["skills"])


def test_replicate_sets_curves_and_skills(cli: Cli, zoo_like: Path, tmp_path: Path) -> None:
    out = tmp_path / "r.csv"
    found = cli("replicate", zoo_like, "--limit", 8, "--out", out, "--curves", "--json")
    assert found.code == 0
    (pair,) = found.json["pairs"]
    assert (pair["first"], pair["second"]) == ("small-english (score)", "small-english (held-out)")
    assert list(pd.read_csv(out)["rho"]) == pytest.approx([pair["rho"]])
    assert len(found.json["curves"]["transfers"]) == 4 * 5
    assert cli("replicate", zoo_like, "--limit", 8, "--curves").code == 0


def test_rankings_of_noise_are_not_compared(cli: Cli, gpt2: Path) -> None:
    """An untrained model whose tokenizer knows hardly a word of these texts."""
    found = cli("replicate", gpt2, "--sets", "stories,code", "--limit", 4, "--json")
    assert found.code == 2
    assert found.err.startswith("error: at least two rankings with a signal are needed, there is 0 (stories: ")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("probes", "MODEL", "--skills", "nosuch"), "unknown skill 'nosuch'"),
        (("probes", "MODEL", "--off", "L9"), "L9"),
        (("probes", "MODEL", "--out", "c.csv"), "--carriers"),
        (("probes", "MODEL", "--carriers", "--off", "L1"), "leave out --off"),
        (("probes", "MODEL", "--carriers", "--skills", "facts"), "no pair of facts can be used"),
        (("probes", "nosuch"), "nosuch"),
        (("replicate", "MODEL", "--method", "magnitude"), "looks at no data"),
        (("replicate", "MODEL", "--method", "nosuch"), "nosuch"),
        (("replicate", "MODEL", "--skills", "--curves"), "leave out"),
        (("replicate", "MODEL", "--sets", "stories"), "at least two"),
    ],
)
def test_mistakes_take_one_line(cli: Cli, zoo_like: Path, arguments: tuple[Any, ...], told: str) -> None:
    found = cli(*(zoo_like if each == "MODEL" else each for each in arguments))
    assert found.code == 2
    assert found.err.startswith("error: ")
    assert found.err.count("\n") == 1
    assert told in found.err
