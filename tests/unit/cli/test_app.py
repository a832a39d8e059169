"""``app``: the command that is started, and what is refused before."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from headlens.cli import app

from .conftest import Cli


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """A package with an app.py beside it; commands are noted, not run."""
    package = tmp_path / "headlens"
    package.mkdir()
    (tmp_path / "app.py").write_text("", encoding="utf-8")
    monkeypatch.setattr("headlens.__file__", str(package / "__init__.py"))
    found: list[list[str]] = []
    monkeypatch.setattr(app, "start", found.append)
    return found


def _free_port() -> int:
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        return trial.getsockname()[1]


def _options(command: list[str]) -> dict[str, str]:
    flags = command[5:]
    return dict(zip(flags[::2], flags[1::2], strict=True))


def test_local_by_default(cli: Cli, started: list[list[str]], tmp_path: Path) -> None:
    port = _free_port()
    found = cli("app", "--port", port)
    assert (found.code, found.out) == (0, "")
    assert found.lines == [f"HeadLens: http://127.0.0.1:{port} (Ctrl-C ends it)"]
    assert started[0][1:5] == ["-m", "streamlit", "run", str(tmp_path / "app.py")]
    options = _options(started[0])
    assert options["--server.address"] == "127.0.0.1"
    assert options["--server.port"] == str(port)
    assert options["--browser.gatherUsageStats"] == "false"


def test_the_options_are_known_to_streamlit(started: list[list[str]], cli: Cli) -> None:
    from streamlit import config

    cli("app", "--port", _free_port())
    known = config._config_options_template
    assert {name.removeprefix("--") for name in _options(started[0])} <= set(known)


def test_another_host_opens_it_to_the_network(cli: Cli, started: list[list[str]]) -> None:
    found = cli("app", "--host", "0.0.0.0", "--port", _free_port())
    assert found.code == 0
    assert "network" in found.lines[1]
    assert _options(started[0])["--server.address"] == "0.0.0.0"
    assert "network" in cli("app", "--help").out


def test_refused(cli: Cli, started: list[list[str]]) -> None:
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        port = busy.getsockname()[1]
        taken = cli("app", "--port", port)
    assert (taken.code, len(taken.lines)) == (2, 1)
    assert str(port) in taken.err
    unknown = cli("app", "--host", "no.such.host.invalid")
    assert (unknown.code, len(unknown.lines)) == (2, 1)
    assert started == []


def test_without_the_repository(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headlens.__file__", str(tmp_path / "headlens" / "__init__.py"))
    found = cli("app")
    assert (found.code, len(found.lines)) == (2, 1)
    assert str(tmp_path / "app.py") in found.err


@pytest.mark.parametrize(
    ("host", "local"),
    [
        ("127.0.0.1", True),
        ("localhost", True),
        ("::1", True),
        ("0.0.0.0", False),
        ("192.168.1.4", False),
        ("::", False),
    ],
)
def test_is_local(host: str, local: bool) -> None:
    assert app.is_local(host) is local
