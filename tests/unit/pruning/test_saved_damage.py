"""Folders of cut models in which something is missing, altered or of another kind: told in one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import headlens
from headlens.errors import ModelError
from headlens.lens import Lens
from headlens.models.loading import load
from headlens.pruning.cut import cut, mask
from headlens.pruning.saved import save_cut
from tests.small_models import byte_tokenizer
from tests.unit.models.tiny import tiny
from tests.unit.pruning.saved_kit import make, read, save


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
