"""The recovery toys, made once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.pruning import recovery_toys as toys


@pytest.fixture(scope="session")
def toy_full(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained model."""
    return toys.trained(tmp_path_factory.mktemp("toys") / "full")


@pytest.fixture(scope="session")
def toy_cut(toy_full: Path) -> Path:
    """Its cut, which hurts."""
    return toys.cut_of(toy_full, toy_full.parent / "cut")


@pytest.fixture(scope="session")
def toy_text(toy_full: Path) -> Path:
    """Text that it can recover on."""
    return toys.text_file(toy_full.parent / "lines.txt")
