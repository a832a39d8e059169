"""A folder of a cut model is replaced as a whole or not at all."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from headlens.errors import HeadlensError
from headlens.pruning.cut import cut
from headlens.pruning.publish import check_target, replacing
from headlens.pruning.saved import save_cut, save_model
from tests.unit.pruning.saved_kit import save

KEPT = json.dumps({"heads": {}})


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
