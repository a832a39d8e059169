"""``evaluate`` against models whose output projection was zeroed by hand, and plain transformers code."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from .conftest import LINES, Cli, tokenizer

KEYS = {
    "metric",
    "baseline",
    "value",
    "delta",
    "examples",
    "tokens",
    "perplexity_baseline",
    "perplexity",
    "accuracy_baseline",
    "accuracy",
    "kl",
}


def _nll(model: Any, lines: list[str]) -> tuple[float, int]:
    """Summed NLL and number of predictions, one example at a time."""
    total, count = 0.0, 0
    for line in lines:
        ids = torch.tensor([tokenizer()(line)["input_ids"]])
        with torch.no_grad():
            logits = model(ids).logits[0, :-1].double()
        total += float(torch.nn.functional.cross_entropy(logits, ids[0, 1:], reduction="sum"))
        count += ids.shape[1] - 1
    return total, count


def test_loss_of_switched_heads(cli: Cli, gpt2: Path, texts: Path) -> None:
    from transformers import AutoModelForCausalLM

    model: Any = AutoModelForCausalLM.from_pretrained(gpt2)
    before, count = _nll(model, LINES)
    with torch.no_grad():  # GPT-2 keeps W_O as [in, out]; a head has 4 rows
        model.transformer.h[0].attn.c_proj.weight[4:8] = 0
        model.transformer.h[1].attn.c_proj.weight[:] = 0
    after, _ = _nll(model, LINES)
    found = cli("evaluate", gpt2, "--data", texts, "--off", "L0H1,L1", "--json")
    assert (found.code, found.err) == (0, "")
    result = found.json
    assert set(result) >= KEYS
    assert (result["metric"], result["examples"], result["tokens"]) == ("loss", len(LINES), count)
    assert result["baseline"] == pytest.approx(before / count, rel=1e-5)
    assert result["value"] == pytest.approx(after / count, rel=1e-5)
    assert result["delta"] == pytest.approx((after - before) / count, rel=1e-4)
    assert abs(result["delta"]) > 1e-3
    assert result["perplexity"] == pytest.approx(math.exp(after / count), rel=1e-5)
    assert result["kl"] > 0


def test_nothing_off(cli: Cli, gpt2: Path, texts: Path) -> None:
    result = cli("evaluate", gpt2, "--data", texts, "--json").json
    assert result["value"] == result["baseline"]
    assert (result["delta"], result["kl"], result["off"]) == (0.0, 0.0, "none")


def test_options_reach_the_computation(cli: Cli, gpt2: Path, texts: Path) -> None:
    def value(*options: object) -> Any:
        return cli("evaluate", gpt2, "--data", texts, "--off", "L0H1,L2", "--json", *options).json

    whole = value()
    assert value("--batch-size", 1)["value"] == pytest.approx(whole["value"], rel=1e-5)
    assert value("--limit", 2)["examples"] == 2
    assert value("--max-tokens", 3)["tokens"] == 2 * len(LINES)
    halves = [value("--split", half)["examples"] for half in ("score", "held-out", "all")]
    assert halves == [3, 3, 6]
    kinds = {value("--ablation", kind)["value"] for kind in ("zero", "mean", "resample")}
    assert len(kinds) == 3
    assert value("--ablation", "resample", "--seed", 1)["value"] != value("--ablation", "resample")["value"]
    assert value("--metric", "accuracy")["baseline"] == whole["accuracy_baseline"]
    drift = value("--metric", "drift")
    assert (drift["baseline"], drift["value"]) == (0.0, whole["kl"])


def test_default_data_is_the_held_out_half_and_live_its_beginning(cli: Cli, gpt2: Path) -> None:
    from headlens import open_model
    from headlens.data.select import live_set, load_data

    whole = cli("evaluate", gpt2, "--json").json
    assert whole["examples"] == len(load_data(None, task="causal-lm", split="held-out").examples)
    live = cli("evaluate", gpt2, "--live", "--off", "L0", "--json").json
    assert (live["examples"], live["tokens"]) == (len(found := live_set(open_model(str(gpt2)))), found.tokens)
    assert live["tokens"] < whole["tokens"]


def test_a_bare_encoder_has_drift_only(cli: Cli, bert: Path, texts: Path) -> None:
    result = cli("evaluate", bert, "--data", texts, "--off", "L1", "--json").json
    assert (result["metric"], result["baseline"]) == ("drift", 0.0)
    assert result["value"] > 0
    names = ("perplexity", "perplexity_baseline", "accuracy", "accuracy_baseline", "kl")
    assert all(result[name] is None for name in names)
    assert cli("evaluate", bert, "--data", texts, "--metric", "loss").code == 2


def test_whole_groups(cli: Cli, llama: Path, texts: Path) -> None:
    found = cli("evaluate", llama, "--data", texts, "--off", "L0H0", "--unit", "kv")
    assert (found.code, len(found.lines)) == (2, 1)
    assert "L0G0" in found.err
    group = cli("evaluate", llama, "--data", texts, "--off", "L0G0", "--unit", "kv", "--json").json
    assert group["value"] == cli("evaluate", llama, "--data", texts, "--off", "L0H0-H1", "--json").json["value"]


def test_text_for_people(cli: Cli, gpt2: Path, texts: Path) -> None:
    found = cli("evaluate", gpt2, "--data", texts, "--off", "L1")
    assert (found.code, found.err) == (0, "")
    assert "Perplexity" in found.out
    assert "Off: L1 (zero ablation)" in found.out


def _translations(folder: Path, sources: list[str], new_tokens: int, *, cut: bool) -> list[str]:
    """Greedy outputs of the plain model, one source at a time, with some columns of W_O zeroed."""
    from transformers import AutoModelForSeq2SeqLM

    model = AutoModelForSeq2SeqLM.from_pretrained(folder)
    words = tokenizer()
    if cut:
        with torch.no_grad():  # enc.L0 and cross.L1H2; T5 keeps W_O as [out, in]
            model.encoder.block[0].layer[0].SelfAttention.o.weight[:] = 0
            model.decoder.block[1].layer[1].EncDecAttention.o.weight[:, 8:12] = 0
    found = []
    for source in sources:
        ids = torch.tensor([words(source)["input_ids"]])
        output = model.generate(ids, max_new_tokens=new_tokens, do_sample=False, num_beams=1)
        found.append(words.decode(output[0], skip_special_tokens=True))
    return found


def test_bleu(cli: Cli, t5: Path, tmp_path: Path) -> None:
    from sacrebleu import corpus_bleu

    lines = LINES[:3]
    # What the model writes with all heads on is the reference, but for some words: BLEU is then far from 0.
    drafts = _translations(t5, lines, 10, cut=False)
    references = [f"{draft} the cat" for draft in drafts]
    path = tmp_path / "data.jsonl"
    rows = [{"source": s, "target": t} for s, t in zip(lines, references, strict=True)]
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    new_tokens = max(len(tokenizer()(text)["input_ids"]) for text in references) + 8
    before, after = (
        corpus_bleu(_translations(t5, lines, new_tokens, cut=cut), [references]).score for cut in (False, True)
    )
    assert before > 5
    assert abs(before - after) > 1
    command = ("evaluate", t5, "--data", path, "--metric", "bleu", "--off", "enc.L0,cross.L1H2")
    found = cli(*command, "--batch-size", 2, "--json")
    assert (found.code, found.err) == (0, "")
    assert found.json["metric"] == "bleu"
    assert found.json["baseline"] == pytest.approx(before, abs=1e-6)
    assert found.json["value"] == pytest.approx(after, abs=1e-6)
    assert found.json["delta"] == pytest.approx(after - before, abs=1e-6)
    assert found.json["perplexity"] > found.json["accuracy"]
    assert "BLEU" in cli(*command).out
    nothing = cli("evaluate", t5, "--data", path, "--metric", "bleu", "--json").json
    assert nothing["value"] == nothing["baseline"] == pytest.approx(before, abs=1e-6)


def test_a_folder_of_transformers_4_with_pruned_heads_is_warned_about(cli: Cli, gpt2: Path, tmp_path: Path) -> None:
    shutil.copytree(gpt2, tmp_path / "v4")
    config = tmp_path / "v4" / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "pruned_heads": {"0": [1]}}), encoding="utf-8")
    found = cli("evaluate", tmp_path / "v4", "--limit", "2", "--json")
    assert (found.code, found.json["off"]) == (0, "none")
    assert found.lines[0].startswith("warning: config.json lists pruned_heads, which transformers 5 ignores")
