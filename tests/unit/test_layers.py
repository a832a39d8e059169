"""The architecture, held by tests: what may import what, and what importing costs."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[2]
PACKAGE = REPO / "headlens"
HEAVY = ("torch", "transformers", "pandas", "numpy", "scipy", "streamlit", "plotly")


def imports_of(path: Path) -> Iterator[str]:
    """Every module named by an import statement anywhere in a file."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def files_outside(*folders: str) -> list[Path]:
    """Files of the package that are in none of ``folders``."""
    return [path for path in PACKAGE.rglob("*.py") if path.relative_to(PACKAGE).parts[0] not in folders]


def offenders(files: list[Path], *modules: str) -> list[str]:
    """Files that import one of ``modules`` (or a part of it)."""
    return [
        f"{path.relative_to(REPO)} imports {name}"
        for path in files
        for name in imports_of(path)
        if any(name == module or name.startswith(f"{module}.") for module in modules)
    ]


def test_only_the_interface_imports_streamlit() -> None:
    assert offenders(files_outside("ui"), "streamlit", "headlens.ui") == []


def test_only_charts_and_the_interface_import_plotly() -> None:
    assert offenders(files_outside("ui", "charts"), "plotly") == []


def test_charts_know_neither_models_nor_torch() -> None:
    charts = list((PACKAGE / "charts").rglob("*.py"))
    assert charts
    assert offenders(charts, "torch", "transformers", "headlens.models", "headlens.lens", "streamlit") == []


def test_models_import_nothing_above_them() -> None:
    models = list((PACKAGE / "models").rglob("*.py"))
    assert models
    assert offenders(models, "headlens.importance", "headlens.sweep", "headlens.cli", "headlens.charts") == []


def test_the_ban_finds_an_offender(tmp_path: Path) -> None:
    bad = PACKAGE / "ui" / "cache.py"
    assert offenders([bad], "streamlit") != []


@pytest.mark.parametrize(
    "program",
    ["import headlens", "import headlens.cli.main", "import headlens.models.catalogue as c; c.entries()"],
)
def test_cheap_imports_stay_cheap(program: str) -> None:
    code = f"{program}\nimport sys; print([m for m in {HEAVY!r} if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=REPO)
    assert found.stdout.strip() == "[]"
