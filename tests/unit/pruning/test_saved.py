"""Folders of cut models: what is in them, what opens them, and what happens when something goes wrong."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

import headlens
from headlens.errors import HeadlensError, ModelError
from headlens.lens import Lens
from headlens.models import folders
from headlens.models.loading import load
from headlens.pruning.card import AUTO
from headlens.pruning.cut import Cut, cut, mask
from headlens.pruning.publish import check_target, replacing
from headlens.pruning.saved import Saved, bytes_before, save_cut, save_model, source_of
from tests.small_models import byte_tokenizer
from tests.unit.models.opened import Opened, assert_same, differs, lens_on, opened
from tests.unit.models.tiny import TINY, TinySpec, build, outputs, tiny
from tests.unit.pruning.cuts import KINDS, as_loaded, choose

REPO = Path(__file__).resolve().parents[3]
TASKS = {
    "gpt2": "causal-lm",
    "llama": "causal-lm",
    "llama-mqa": "causal-lm",
    "bloom": "causal-lm",
    "deepseek_v3": "causal-lm",
    "olmo2": "causal-lm",
    "bert": "masked-lm",
    "t5": "seq2seq",
    "vit": "image-classification",
    "clip": "two-tower",
}
KEPT = json.dumps({"heads": {}})


def make(name: str, heads: str | None = None, *, masked: bool = False) -> tuple[Opened, Cut]:
    """A cut tiny model that knows its task."""
    case = opened(name)
    off = choose(case.lens, KINDS["ragged"]) if heads is None else case.lens.topology.parse(heads)
    result = (mask if masked else cut)(case.lens, off)
    object.__setattr__(result.loaded, "task", TASKS[name])
    return case, result


def save(name: str, folder: Path, heads: str | None = None, **more: Any) -> tuple[Opened, Cut, Saved]:
    """The same, written."""
    case, result = make(name, heads, **more)
    return case, result, save_cut(result, folder, source=source_of(case.lens))


def read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The model of a folder; tiny models have neither tokenizer nor processor."""
    monkeypatch.setattr("headlens.models.loading._open_readers", lambda *_: (None, None))
    return headlens.load(str(folder))


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


@pytest.mark.parametrize("name", ["model.safetensors", "config.json"])
def test_altered_and_missing_files_are_told(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, _, written = save("llama", tmp_path / "cut")
    file = written.folder / name
    before = file.read_bytes()
    # One bit of the last weight, or another value in the config.
    file.write_bytes(before[:-1] + bytes([before[-1] ^ 1]) if name != "config.json" else before.replace(b"48", b"49"))
    with pytest.raises(ModelError, match=rf"{name} is not the file that was written") as caught:
        read(written.folder, monkeypatch)
    assert "\n" not in str(caught.value)
    file.unlink()
    with pytest.raises(ModelError, match=rf"lacks {name}, which was written there; copy the whole folder again"):
        read(written.folder, monkeypatch)
    file.write_bytes(before)
    read(written.folder, monkeypatch)


@pytest.mark.parametrize("name", ["source", "choice", "files", "recovery"])
def test_a_provenance_that_was_altered_is_told(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, _, written = save("llama", tmp_path / "cut")
    path = written.folder / "headlens.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), name: [3]}))
    with pytest.raises(ModelError, match=f"headlens.json is broken .{name} is no JSON object"):
        read(written.folder, monkeypatch)


def test_a_tokenizer_that_is_missing_is_told(tmp_path: Path) -> None:
    _, result = make("llama")
    object.__setattr__(result.loaded, "tokenizer", byte_tokenizer())
    written = save_cut(result, tmp_path / "cut", source={})
    (written.folder / "tokenizer.json").unlink()
    with pytest.raises(ModelError, match=r"lacks tokenizer\.json"):
        headlens.load(str(written.folder))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"self": []}, "heads of 0 self layers"),
        ({"self": [{"heads": [0, 9], "original": 4, "kv_original": 2}]}, "heads that it cannot have"),
        ({"self": [{"heads": "all", "original": 4, "kv_original": 2}]}, "no list of heads"),
        ({"self": [{"heads": [0], "original": 0, "kv_original": 2}]}, "how many heads there were"),
        ({"self": [{"heads": [0], "original": 6, "kv_original": 2}] * 3}, "config.json gives self layer 0 4 heads"),
        ({"enc": [{"heads": [0], "original": 4, "kv_original": 2}] * 3}, "heads of 0 self layers"),
        ([], "no layers by site"),
    ],
)
def test_broken_labels_are_told_in_one_line(
    change: Any, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As somebody would find them who edits config.json and takes headlens.json away."""
    _, _, written = save("llama", tmp_path / "cut")
    (written.folder / "headlens.json").unlink()
    config = written.folder / "config.json"
    raw = json.loads(config.read_text(encoding="utf-8"))
    config.write_text(json.dumps({**raw, "headlens_heads": change}), encoding="utf-8")
    with pytest.raises(ModelError, match=message) as caught:
        read(written.folder, monkeypatch)
    assert "\n" not in str(caught.value)


def test_labels_that_disagree_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, _, written = save("llama", tmp_path / "cut")
    path = written.folder / "headlens.json"
    facts = json.loads(path.read_text(encoding="utf-8"))
    facts["heads"]["self"][2]["heads"] = [0]
    path.write_text(json.dumps(facts), encoding="utf-8")
    with pytest.raises(ModelError, match="do not name the same heads"):
        read(written.folder, monkeypatch)


def test_a_full_disk_leaves_the_old_folder_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case, _, written = save("llama", tmp_path / "cut")
    before = {path.name: path.read_bytes() for path in written.folder.iterdir()}
    second = cut(case.lens, case.lens.topology.parse("L2"))

    def full(*args: Any, **more: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(type(second.model), "save_pretrained", full)
    with pytest.raises(HeadlensError, match="No space left on device; free space there"):
        save_model(second.loaded, written.folder, {})
    monkeypatch.undo()
    monkeypatch.setattr("headlens.pruning.saved.card", full)  # at the very end, when the weights are written
    with pytest.raises(HeadlensError, match="No space left"):
        save_cut(second, written.folder, source={})
    assert {path.name: path.read_bytes() for path in written.folder.iterdir()} == before
    assert [path.name for path in tmp_path.iterdir()] == ["cut"]


def test_a_kill_between_the_two_renames_loses_nothing(tmp_path: Path) -> None:
    """The old folder is then inside the working folder, and comes back before anything else is done."""
    _, result, written = save("llama", tmp_path / "cut")
    before = sorted(path.name for path in written.folder.iterdir())
    (tmp_path / ".cut-x.part").mkdir()
    written.folder.rename(tmp_path / ".cut-x.part" / "old")
    with pytest.raises(KeyboardInterrupt), replacing(tmp_path / "cut"):
        raise KeyboardInterrupt
    assert sorted(path.name for path in written.folder.iterdir()) == before
    (tmp_path / ".cut-y.part").mkdir()
    os.utime(tmp_path / ".cut-y.part", (0, 0))
    save_cut(result, tmp_path / "cut", source={})
    assert sorted(path.name for path in tmp_path.iterdir()) == [".cut-x.part", "cut"]  # the old remains are swept


def test_ctrl_c_while_the_folder_changes_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "cut"
    folder.mkdir()
    (folder / "old.txt").write_text("old", encoding="utf-8")
    rename = Path.rename

    def interrupted(self: Path, target: Path) -> Path:
        if self.name == "new":
            raise KeyboardInterrupt
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", interrupted)
    monkeypatch.setattr("headlens.pruning.publish.exchange", lambda *_: False)
    with pytest.raises(KeyboardInterrupt), replacing(folder):
        pass
    assert (folder / "old.txt").read_text(encoding="utf-8") == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["cut"]


def test_what_may_be_replaced(tmp_path: Path) -> None:
    _, _, written = save("llama", tmp_path / "cut")
    assert check_target(written.folder) == written.folder  # our own
    assert check_target(tmp_path / "new") == tmp_path / "new"
    (tmp_path / "empty").mkdir()
    check_target(tmp_path / "empty")
    other = tmp_path / "other"
    other.mkdir()
    (other / "notes.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(HeadlensError, match="not empty and HeadLens did not write it"):
        check_target(other)
    check_target(other, overwrite=True)
    (other / "photos").mkdir()
    with pytest.raises(HeadlensError, match="holds the folder photos, so it is not replaced"):
        check_target(other, overwrite=True)
    (other / "headlens.json").write_text(KEPT, encoding="utf-8")
    with pytest.raises(HeadlensError, match="holds the folder photos"):
        check_target(other)
    (other / "photos").rmdir()
    with pytest.raises(HeadlensError, match="not empty"):
        check_target(other)
    with pytest.raises(HeadlensError, match="is a file"):
        check_target(other / "notes.txt")
    with pytest.raises(HeadlensError, match="make it first"):
        check_target(tmp_path / "a" / "b")


def test_what_others_put_into_a_folder_of_ours_is_not_lost(tmp_path: Path) -> None:
    """Notes only where that is asked for, and another model inside it never."""
    _, _, written = save("llama", tmp_path / "cut")
    (written.folder / "notes.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(HeadlensError, match=r"also holds notes.txt, which HeadLens did not write and would remove"):
        check_target(written.folder)
    assert check_target(written.folder, overwrite=True) == written.folder
    save("llama", written.folder / "second")
    for overwrite in (False, True):
        with pytest.raises(HeadlensError, match="holds the folder second, so it is not replaced"):
            check_target(written.folder, overwrite=overwrite)


def test_a_folder_is_replaced_as_a_whole(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "old.txt").write_text("old", encoding="utf-8")
    save("llama", folder)
    assert sorted(path.name for path in folder.iterdir()) == [
        "README.md",
        "config.json",
        "generation_config.json",
        "headlens.json",
        "model.safetensors",
    ]
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    modes = {path.stat().st_mode & 0o777 for path in folder.iterdir()}
    assert len(modes) == 1


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


def test_a_v4_folder_with_pruned_heads_is_still_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, _ = tiny("bert")
    model.save_pretrained(tmp_path / "v4")
    config = tmp_path / "v4" / "config.json"
    raw = json.loads(config.read_text(encoding="utf-8"))
    config.write_text(json.dumps({**raw, "pruned_heads": {"0": [1]}}), encoding="utf-8")
    monkeypatch.setattr("headlens.models.loading._open_readers", lambda *_: (None, None))
    found = load(str(tmp_path / "v4"))
    assert any("pruned_heads" in note for note in found.notes)
    lens = Lens(found)
    for result in (cut(lens, lens.topology.parse("L0H0")), mask(lens, lens.topology.parse("L0H0"))):
        # Transformers 4 would take it for what was cut here.
        assert not getattr(result.model.config, "pruned_heads", None)
    assert lens.model.config.pruned_heads


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
