"""What is kept of a training: whole or not at all, and never in the way of the training itself."""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from headlens.pruning import checkpoints
from headlens.pruning.checkpoints import Checkpoints

KEY = "ab" * 32


def tensors(value: float) -> dict[str, torch.Tensor]:
    return {"a": torch.full((2, 3), value), "step": torch.tensor(value)}


def test_what_was_kept_comes_back(tmp_path: Path) -> None:
    kept = Checkpoints(KEY, tmp_path)
    assert kept.load() is None
    with kept.locked():
        kept.save({"step": 1}, {"last": tensors(1.0), "best": tensors(2.0)})
        kept.save({"step": 2}, {"last": tensors(3.0)})
    found = Checkpoints(KEY, tmp_path).load()
    assert found is not None
    assert found.facts == {"step": 2}
    assert {name: float(content["a"][0, 0]) for name, content in found.tensors.items()} == {"last": 3.0, "best": 2.0}
    assert float(found.tensors["last"]["step"]) == 3.0
    assert len(list(kept.folder.glob("*.safetensors"))) == 2
    assert not list(kept.folder.glob("*.part"))
    assert Checkpoints("cd" * 32, tmp_path).load() is None
    assert Checkpoints(KEY[:32] + "cd" * 16, tmp_path).load() is None  # the same folder


def test_a_damaged_state_is_dropped_with_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    kept = Checkpoints(KEY, tmp_path)
    with kept.locked():
        kept.save({"step": 1}, {"last": tensors(1.0)})
    (file,) = kept.folder.glob("last-*.safetensors")
    file.write_bytes(file.read_bytes()[:-4])
    with caplog.at_level(logging.WARNING):
        assert kept.load() is None
    assert "starts again" in caplog.text
    (kept.folder / "state.json").write_text('{"key": ', encoding="utf-8")
    assert kept.load() is None


def test_a_kill_between_the_files_leaves_the_state_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Checkpoints(KEY, tmp_path)
    with kept.locked():
        kept.save({"step": 1}, {"last": tensors(1.0), "best": tensors(1.0)})
        with monkeypatch.context() as patch:

            def killed(path: Path) -> None:
                raise KeyboardInterrupt

            patch.setattr(checkpoints, "_sync", killed)
            with pytest.raises(KeyboardInterrupt):
                kept.save({"step": 2}, {"last": tensors(5.0), "best": tensors(5.0)})
        found = kept.load()
        assert found is not None
        assert found.facts == {"step": 1}
        assert float(found.tensors["best"]["a"][0, 0]) == 1.0
        kept.save({"step": 3}, {"last": tensors(7.0)})
    assert len(list(kept.folder.glob("*.safetensors"))) == 2


def test_a_full_disk_ends_the_keeping_and_not_the_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(path: Path) -> Any:
        raise OSError(28, "No space left on device")

    kept = Checkpoints(KEY, tmp_path)
    monkeypatch.setattr(checkpoints, "_sync", full)
    with kept.locked(), caplog.at_level(logging.WARNING):
        kept.save({"step": 1}, {"last": tensors(1.0)})
        kept.save({"step": 2}, {"last": tensors(1.0)})
    assert caplog.text.count("No space left") == 1
    assert not kept.usable


def test_a_place_that_cannot_be_written_is_no_obstacle(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("")
    kept = Checkpoints(KEY, tmp_path / "file")
    with kept.locked(), caplog.at_level(logging.WARNING):
        kept.save({"step": 1}, {"last": tensors(1.0)})
        assert kept.load() is None
    assert "goes on without" in caplog.text


def test_clear_and_remove(tmp_path: Path) -> None:
    kept = Checkpoints(KEY, tmp_path)
    with kept.locked():
        kept.save({"step": 1}, {"last": tensors(1.0)})
        kept.clear()
        assert kept.load() is None
        kept.save({"step": 1}, {"last": tensors(1.0)})
        assert kept.load() is not None
        kept.remove()
    assert not kept.folder.exists()


def test_trainings_that_nobody_went_on_with_are_forgotten(tmp_path: Path) -> None:
    old, recent = Checkpoints("11" * 32, tmp_path), Checkpoints("22" * 32, tmp_path)
    for kept in (old, recent):
        with kept.locked():
            kept.save({"step": 1}, {"last": tensors(1.0)})
    long_ago = time.time() - checkpoints.ABANDONED_AFTER - 60
    os.utime(old.folder / "state.json", (long_ago, long_ago))
    with Checkpoints(KEY, tmp_path).locked():
        pass
    assert not old.folder.exists()
    assert recent.load() is not None
