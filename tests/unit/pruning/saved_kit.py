"""Tiny models that are cut and written into folders, and read again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import headlens
from headlens.pruning.cut import Cut, cut, mask
from headlens.pruning.saved import Saved, save_cut, source_of
from tests.unit.models.opened import Opened, opened
from tests.unit.pruning.cuts import KINDS, choose

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
