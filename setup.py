"""Puts the app, its pages and its assets, which lie beside the package, into it when a wheel is built.

Everything else about the build is said in pyproject.toml. An editable install leaves them where they are; which of the
two places counts is decided by ``headlens.paths.home``.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

HERE = Path(__file__).resolve().parent
INSIDE = "_app"
TAKEN = ("app.py", "pages", "assets", ".streamlit")
LEFT_OUT = shutil.ignore_patterns("__pycache__", "*.pyc", "screenshots", "secrets.toml")


class BuildWithApp(build_py):
    """``build_py``, and the app in the folder ``headlens/_app``."""

    def run(self) -> None:
        """Builds the package, then copies the app into it, without what an earlier build may have left there."""
        super().run()
        if self.editable_mode:
            return
        target = Path(self.build_lib) / "headlens" / INSIDE
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        for name in TAKEN:
            source = HERE / name
            if source.is_dir():
                shutil.copytree(source, target / name, ignore=LEFT_OUT)
            else:
                shutil.copy2(source, target / name)


setup(cmdclass={"build_py": BuildWithApp})
