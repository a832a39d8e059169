"""A full model, its cut and the recovered cut in folders, made once."""

from __future__ import annotations

from pathlib import Path

import pytest

from headlens.lens import Lens
from headlens.models.loading import load
from headlens.pruning.full_model import open_full
from headlens.pruning.random_cuts import Control
from headlens.pruning.recovered_folder import finished, save_recovered
from headlens.pruning.recovery import recover
from headlens.pruning.recovery_spec import RecoverySpec
from headlens.pruning.recovery_table import recovery_table
from headlens.report.models import Subjects, names_for, open_subjects
from tests.unit.pruning import recovery_toys as toys


@pytest.fixture(scope="session")
def full(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained model."""
    return toys.trained(tmp_path_factory.mktemp("report") / "full")


@pytest.fixture(scope="session")
def cut(full: Path) -> Path:
    """Its cut."""
    return toys.cut_of(full, full.parent / "cut")


@pytest.fixture(scope="session")
def text(full: Path) -> Path:
    """Lines."""
    return toys.text_file(full.parent / "lines.txt")


@pytest.fixture(scope="session")
def recovered(cut: Path, text: Path) -> Path:
    """The recovered cut, with two random cuts for a control."""
    loaded = load(str(cut), dtype="float32")
    lens = Lens(loaded)
    source = open_full(lens, loaded.sidecar)
    data = toys.data_of(lens, text)
    keep = cut.parent / "keep"
    found = recover(lens, data, RecoverySpec(steps=12, learning_rate=2e-3, every=4), full=source, keep_in=keep)
    table = recovery_table(found, data, source, Control(2, keep_in=keep))
    facts = finished(found, "headlens recover ...")
    facts |= {"table": table.describe(), "table_sentences": table.sentences()}
    folder = cut.parent / "recovered"
    save_recovered(loaded, folder, facts)
    return folder


@pytest.fixture(scope="session")
def subjects(full: Path, cut: Path, recovered: Path) -> Subjects:
    """All three, opened."""
    return open_subjects(names_for(str(full), str(cut), str(recovered)), lambda name: Lens(load(name)))
