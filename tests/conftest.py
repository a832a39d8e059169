"""What all tests share: a cache folder of their own, and quiet, repeatable torch."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parent.parent
CONVERTED = REPO / ".pytest_cache" / "headlens-models"
"""Converted packaged models are kept between test runs: converting takes half a minute."""


@pytest.fixture(scope="session", autouse=True)
def headlens_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Points HEADLENS_CACHE at a fresh folder whose converted models outlive the run."""
    cache = tmp_path_factory.mktemp("headlens-cache")
    CONVERTED.mkdir(parents=True, exist_ok=True)
    (cache / "models").symlink_to(CONVERTED, target_is_directory=True)
    before = os.environ.get("HEADLENS_CACHE")
    os.environ["HEADLENS_CACHE"] = str(cache)
    yield cache
    if before is None:
        del os.environ["HEADLENS_CACHE"]
    else:
        os.environ["HEADLENS_CACHE"] = before
