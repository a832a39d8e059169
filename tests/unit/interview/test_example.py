"""The program on the page runs as it stands there, and gives what the library gives."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest

from headlens.interview.bank import interview_dir
from tests.small_models import save_bert, save_gpt2, save_t5

SAVE = {"gpt2": save_gpt2, "t5": save_t5, "bert": save_bert}


@pytest.mark.parametrize("family", list(SAVE))
def test_it_runs(
    family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = SAVE[family](tmp_path / family)
    capsys.readouterr()
    monkeypatch.setattr(sys, "argv", ["worked_example.py", str(folder)])
    names = runpy.run_path(str(interview_dir() / "worked_example.py"))
    lines = capsys.readouterr().out.strip().splitlines()
    assert len(lines) == 1 + 1 + 2 + names["SEEDS"]
    assert re.search(r"\d+ of \d+ heads off, loss on held-out text", lines[1])
    if family != "gpt2":
        return
    from headlens.data.encode import encode
    from headlens.data.select import load_data
    from headlens.evaluate import evaluate
    from headlens.heads import HeadSet
    from headlens.lens import open_model
    from headlens.metrics import METRICS

    lens = open_model(str(folder))
    data = encode(lens, load_data(None, task=lens.task, split="held-out", limit=8))
    heads = list(lens.topology.heads())
    off = HeadSet.of(heads[i] for i in np.random.default_rng(0).permutation(12)[:2])
    found = evaluate(lens, data, off, metric=METRICS["loss"]).main
    assert f"{found.baseline:.3f} -> {found.value:.3f}" in lines[4]


def test_a_model_of_the_zoo_is_scored_on_what_it_knows(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["worked_example.py", "zoo-gpt2-small"])
    runpy.run_path(str(interview_dir() / "worked_example.py"))
    lines = capsys.readouterr().out.strip().splitlines()
    assert lines[0].startswith("Split-half reliability")
    baseline = float(lines[2].split("scores")[1].split("->")[0])
    assert baseline < np.log(152) / 2  # guessing among the words of the small English


def test_its_lines_fit_a_page() -> None:
    lines = (interview_dir() / "worked_example.py").read_text(encoding="utf-8").splitlines()
    assert max(map(len, lines)) <= 100
    assert len(lines) <= 60
