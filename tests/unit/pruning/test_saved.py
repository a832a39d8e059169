"""Folders of cut models: what is in them, and what opens them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

import headlens
from headlens.lens import Lens
from headlens.models import folders
from headlens.models.loading import load
from headlens.pruning.card import AUTO
from headlens.pruning.cut import cut
from headlens.pruning.saved import bytes_before, save_cut, save_model, source_of
from tests.unit.models.opened import assert_same, differs, lens_on, opened
from tests.unit.models.tiny import TINY, TinySpec, build, outputs, tiny
from tests.unit.pruning.cuts import as_loaded
from tests.unit.pruning.saved_kit import TASKS, make, read, save

REPO = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("name", TASKS)
def test_reloaded_to_the_bit_again_and_again(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From its folder, and from one that transformers alone has written."""
    case, result, written = save(name, tmp_path / "cut")
    with torch.no_grad():
        wanted = outputs(result.model, case.inputs)
        first = read(written.folder, monkeypatch)
        assert_same(outputs(first, case.inputs), wanted)
        first.save_pretrained(tmp_path / "again")
        second = read(tmp_path / "again", monkeypatch)
        assert_same(outputs(second, case.inputs), wanted)
    assert type(first) is type(case.plain)
    assert all(parameter.requires_grad for parameter in first.parameters())
    assert Lens(load(str(tmp_path / "again"))).topology.heads() == case.lens.topology.heads() - result.off


def test_a_fresh_process_gets_the_same_bits(tmp_path: Path) -> None:
    wanted = {}
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    for name in ("llama", "t5", "bloom"):
        case, result, _ = save(name, tmp_path / name)
        save_file(case.inputs, tmp_path / f"{name}.inputs")
        with torch.no_grad():
            wanted[name] = outputs(result.model, case.inputs)["logits"]
    torch.set_num_threads(threads)
    program = f"""
import torch, headlens, headlens.models.loading as loading
from safetensors.torch import load_file, save_file
loading._open_readers = lambda *_: (None, None)
torch.set_num_threads(1)
for name in {list(wanted)!r}:
    folder = {str(tmp_path)!r} + "/" + name
    with torch.no_grad():
        output = headlens.load(folder)(**load_file(folder + ".inputs"), use_cache=False)
    save_file({{"logits": output.logits.contiguous()}}, folder + ".logits")
"""
    subprocess.run([sys.executable, "-c", program], check=True, cwd=REPO, capture_output=True)
    for name, logits in wanted.items():
        assert torch.equal(load_file(tmp_path / f"{name}.logits")["logits"], logits)


@pytest.mark.parametrize("name", [name for name in TASKS if name != "clip"])
def test_transformers_alone_refuses_a_folder_that_it_would_misread(name: str, tmp_path: Path) -> None:
    """Matrices of a layer without heads that are not in the files would be drawn at random, with no error."""
    case = opened(name)
    site = case.lens.topology.sites[-1].name
    prefix = "" if len(case.lens.topology.sites) == 1 else f"{site}."
    _, result, written = save(name, tmp_path / "cut", f"{prefix}L0,{prefix}L1")
    assert written.loads_with is None
    automatic: Any = getattr(transformers, AUTO[TASKS[name]])
    with pytest.raises(RuntimeError, match="size"):
        automatic.from_pretrained(written.folder)
    assert result.parameters_after == sum(p.numel() for p in result.model.parameters())
    stored = load_file(written.folder / folders.WEIGHTS)
    assert sum(not tensor.numel() for tensor in stored.values()) == 2  # one for each layer, with nothing in it


def test_older_folders_without_the_empty_matrices_still_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case, result, written = save("gpt2", tmp_path / "cut", "L0,L1H2")
    weights = written.folder / folders.WEIGHTS
    save_file({k: t for k, t in load_file(weights).items() if t.numel()}, weights, {"format": "pt"})
    facts = json.loads((written.folder / folders.SIDECAR).read_text())
    facts["files"][folders.WEIGHTS] = folders.file_hash(weights)
    (written.folder / folders.SIDECAR).write_text(json.dumps(facts))
    with torch.no_grad():
        assert_same(outputs(read(written.folder, monkeypatch), case.inputs), outputs(result.model, case.inputs))


@pytest.mark.parametrize(
    ("name", "heads", "cls"),
    [
        ("llama", "L0H0,L0H2,L1H1,L1H3,L2H0,L2H3", "LlamaForCausalLM"),  # one of each group: 2 heads, 2 KV heads
        ("llama", "L0G0,L1G1,L2G0", "LlamaForCausalLM"),  # whole groups
        (
            "llama-mqa",
            "L0H0,L1H3,L2H1",
            "MistralForCausalLM",
        ),  # 3 heads do not divide the width: Llama's config refuses
        ("t5", "enc.L0H1,enc.L1H1,enc.L2H1,dec.L0H3,dec.L1H3,dec.L2H3,cross.L0H0,cross.L1H2,cross.L2H1", "T5"),
        ("deepseek_v3", "L0H0,L1H3,L2H1", "DeepseekV3ForCausalLM"),
        ("vit", "L0H0,L1H3,L2H1", "ViTForImageClassification"),
    ],
)
def test_a_uniform_cut_opens_without_headlens(
    name: str, heads: str, cls: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case, result, written = save(name, tmp_path / "cut", heads)
    assert written.loads_with is not None
    auto: Any = getattr(transformers, written.loads_with)
    alone = auto.from_pretrained(written.folder)
    assert type(alone).__name__.startswith(cls)
    mine = read(written.folder, monkeypatch)
    assert type(mine) is type(alone)
    with torch.no_grad():
        wanted = outputs(result.model, case.inputs)
        assert_same(outputs(alone, case.inputs), wanted)
        assert_same(outputs(mine, case.inputs), wanted)
    lens = Lens(load(str(written.folder)))
    assert lens.topology.heads() == case.lens.topology.heads() - result.off
    assert written.loads_with in (written.folder / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "heads"),
    [
        ("bert", "L0H0,L1H3,L2H1"),  # the width of a head follows from the number of heads
        ("gpt2", "L0H0,L1H3,L2H1"),
        ("bloom", "L0H0,L1H0,L2H0"),
        ("olmo2", "L0G0,L1G0,L2G0"),
        ("llama", "L0H0,L1H0,L2H0"),  # equally many heads, but groups of one and two
        ("llama", "L0G0,L1G0"),  # layers differ
        ("t5", "enc.L0H0,enc.L1H1,enc.L2H1,dec.L0H3,dec.L1H3,dec.L2H3,cross.L0H0,cross.L1H2,cross.L2H1"),  # other rows
    ],
)
def test_where_transformers_alone_cannot_it_refuses_and_the_card_says_so(name: str, heads: str, tmp_path: Path) -> None:
    _, _, written = save(name, tmp_path / "cut", heads)
    assert written.loads_with is None
    text = (written.folder / "README.md").read_text(encoding="utf-8")
    assert "headlens.load(" in text
    assert "cannot open this folder" in text
    auto: Any = getattr(transformers, AUTO[TASKS[name]])
    with pytest.raises(RuntimeError, match="ignore_mismatched_sizes"):
        auto.from_pretrained(written.folder)


def test_groups_of_one_and_three_are_not_taken_for_two_of_two(tmp_path: Path) -> None:
    """Every layer keeps 4 heads and 2 KV heads, so a config with these numbers fits the shapes: it pairs wrongly."""
    wide = {**TINY["llama"].arguments, "num_attention_heads": 8, "head_dim": 6}
    model, inputs = build(TinySpec("causal", "LlamaConfig", ("LlamaForCausalLM",), wide), "LlamaForCausalLM")
    lens = lens_on(model)
    result = cut(lens, lens.topology.parse("L0H0-H2,L0H4,L1H0-H2,L1H4,L2H0-H2,L2H4"))
    object.__setattr__(result.loaded, "task", "causal-lm")
    assert save_cut(result, tmp_path / "cut", source={}).loads_with is None
    config = {**json.loads((tmp_path / "cut" / "config.json").read_text()), "num_attention_heads": 4}
    paired = transformers.LlamaForCausalLM.from_pretrained(tmp_path / "cut", config=transformers.LlamaConfig(**config))
    with torch.no_grad():
        assert differs(outputs(paired, inputs), outputs(result.model, inputs))


def test_a_second_cut_of_a_folder_that_opens_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its config describes 2 heads of 4; a ragged cut of it starts from there, and labels stay the first model's."""
    case, first, written = save("llama", tmp_path / "one", "L0G0,L1G1,L2G0")
    monkeypatch.setattr("headlens.models.loading._open_readers", lambda *_: (None, None))
    lens = Lens(load(str(written.folder)))
    second = cut(lens, lens.topology.parse("L0H2,L1"))
    again = save_cut(second, tmp_path / "two", source=source_of(lens))
    with torch.no_grad():
        found = outputs(headlens.load(str(again.folder)), case.inputs)
    assert_same(found, case.reference(first.off | second.off), atol=1e-4)
    end = Lens(load(str(again.folder)))
    assert end.topology.heads() == case.lens.topology.heads() - first.off - second.off
    assert again.facts["source"]["before"]["off"] == "L0H0,L0H1,L1H2,L1H3,L2H0,L2H1"


def test_masked_opens_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case, result, written = save("llama", tmp_path / "masked", masked=True)
    alone = transformers.AutoModelForCausalLM.from_pretrained(written.folder)
    with torch.no_grad(), case.without(result.off) as plain:
        assert_same(outputs(alone, case.inputs), outputs(plain, case.inputs))
    assert written.facts["kind"] == "masked"
    monkeypatch.setattr("headlens.models.loading._open_readers", lambda *_: (None, None))
    assert len(Lens(load(str(written.folder))).topology.heads()) == len(case.lens.topology.heads())


def test_what_headlens_json_says(tmp_path: Path) -> None:
    case, result, written = save("llama", tmp_path / "cut", "L0H1,L1")
    facts = json.loads((written.folder / "headlens.json").read_text(encoding="utf-8"))
    assert facts["kind"] == "cut"
    assert facts["off"] == "L0H1,L1"
    assert facts["source"]["fingerprint"] == case.lens.fingerprint
    assert [layer["heads"] for layer in facts["heads"]["self"]] == [[0, 2, 3], [], [0, 1, 2, 3]]
    assert facts["heads"]["self"][0]["original"] == 4
    assert facts["heads"]["self"][0]["kv_original"] == 2
    assert facts["max_abs_logit_difference"] == result.proof.difference
    assert facts["parameters_after"] == result.parameters_after
    assert facts["bytes_after"] == (written.folder / "model.safetensors").stat().st_size
    assert set(facts["versions"]) == {"headlens", "torch", "transformers"}
    assert set(facts["files"]) == {"config.json", "model.safetensors"}
    stored = sum(tensor.numel() for tensor in load_file(written.folder / "model.safetensors").values())
    assert stored == result.parameters_after


def test_files_of_half_the_size_are_no_reason_to_compute_with_half_the_precision(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stored in float16 and opened in float32, as the models of the zoo are: so is the cut, by transformers alone."""
    model, inputs = tiny("llama", dtype=torch.float16)
    model.save_pretrained(tmp_path / "full")
    config = json.loads((tmp_path / "full" / "config.json").read_text(encoding="utf-8"))
    (tmp_path / "full" / "config.json").write_text(json.dumps({**config, "dtype": "float32"}), encoding="utf-8")
    monkeypatch.setattr("headlens.models.loading._open_readers", lambda *_: (None, None))
    lens = Lens(load(str(tmp_path / "full")))
    result = cut(lens, lens.topology.parse("L0G0,L1G1,L2G0"))
    written = save_cut(result, tmp_path / "cut", source=source_of(lens))
    assert {str(t.dtype) for t in load_file(written.folder / "model.safetensors").values()} == {"torch.float16"}
    alone = transformers.AutoModelForCausalLM.from_pretrained(written.folder)
    with torch.no_grad():
        assert_same(outputs(alone, inputs), outputs(result.model, inputs))


def test_half_precision_files_stay_half(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model stored in bfloat16 and opened in float32 is written in bfloat16 again: same values, half the bytes."""
    model, inputs = tiny("llama", dtype=torch.bfloat16)
    model.save_pretrained(tmp_path / "half")
    monkeypatch.setattr("headlens.models.loading._open_readers", lambda *_: (None, None))
    lens = Lens(load(str(tmp_path / "half")))
    assert lens.dtype == torch.float32
    assert bytes_before(lens) == (tmp_path / "half" / "model.safetensors").stat().st_size
    result = cut(lens, lens.topology.parse("L0H1,L1"))
    written = save_cut(result, tmp_path / "cut", source=source_of(lens))
    stored = {dtype for dtype, _ in folders.tensor_header(written.folder / "model.safetensors").values()}
    assert stored == {"BF16"}
    assert folders.read_config(written.folder)["dtype"] == "bfloat16"
    with torch.no_grad():
        assert_same(outputs(headlens.load(str(written.folder)), inputs), outputs(result.model, inputs))
    with torch.no_grad():
        result.model.get_parameter("model.norm.weight").add_(1e-4)  # trained on: bfloat16 would lose this
    again = save_model(result.loaded, tmp_path / "trained", {"kind": "cut", "source": {}})
    stored = {dtype for dtype, _ in folders.tensor_header(again.folder / "model.safetensors").values()}
    assert stored == {"F32"}


def test_the_card_takes_names_as_text(tmp_path: Path) -> None:
    _, result = make("llama", "L0H1")
    facts = {"kind": "cut", "source": {"model": "<script>x</script>", "title": "a | *b*"}, "off": "L0H1"}
    sizes = {"parameters_before": 2, "parameters_after": 1}
    text = (save_model(result.loaded, tmp_path / "cut", {**facts, **sizes}).folder / "README.md").read_text("utf-8")
    assert "<script>" not in text.replace("\\<", "")
    assert "# a \\| \\*b\\*, with heads cut out" in text


def test_the_note_of_a_cut_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, _, written = save("llama", tmp_path / "cut", "L0H1,L1")
    monkeypatch.setattr("headlens.models.loading._open_readers", lambda *_: (None, None))
    assert (
        "a cut model: 7 of 12 heads are left, under the names that they had before" in load(str(written.folder)).notes
    )


def test_lens_of_a_cut_without_a_folder() -> None:
    lens = opened("gpt2").lens
    loaded = as_loaded(lens, "causal-lm")
    assert loaded.path is None
    assert bytes_before(lens) == 4 * lens.parameters
