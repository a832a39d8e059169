"""``headlens app``: the web app, for this machine unless asked otherwise."""

from __future__ import annotations

import ipaddress
import os
import socket
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from headlens.cli.output import say
from headlens.errors import HeadlensError
from headlens.paths import home

NAME = "app"
LOCAL = "127.0.0.1"


def run(
    port: Annotated[int, typer.Option("--port", min=1, max=65535, metavar="N", help="Port to listen on.")] = 8501,
    host: Annotated[
        str,
        typer.Option(
            "--host", metavar="ADDRESS", help="Address to listen on. Any other than 127.0.0.1 opens it to the network."
        ),
    ] = LOCAL,
) -> None:
    """Start the web app and show its address; Ctrl-C ends it."""
    script = app_script()
    check_address(host, port)
    shown = f"[{host}]" if ":" in host else host
    say(f"HeadLens: http://{shown}:{port} (Ctrl-C ends it)")
    if not is_local(host):
        say(f"warning: --host {host} opens the app to the network: whoever reaches this machine can use it")
    start(server_command(script, host, port))


def app_script() -> Path:
    """``app.py``; raises HeadlensError where it, or Streamlit, was not installed with the package."""
    script = home() / "app.py"
    if not script.is_file():
        raise HeadlensError(f"there is no {script}; install HeadLens again, or start it from a copy of the repository")
    if find_spec("streamlit") is None:
        raise HeadlensError("the app needs streamlit; run `pip install streamlit`")
    return script


def server_command(script: Path, host: str, port: int) -> list[str]:
    """The command that serves the app."""
    options = {
        "server.address": host,
        "server.port": str(port),
        "server.showEmailPrompt": "false",
        "browser.gatherUsageStats": "false",
    }
    flags = [part for name, value in options.items() for part in (f"--{name}", value)]
    return [sys.executable, "-m", "streamlit", "run", str(script), *flags]


def is_local(host: str) -> bool:
    """Whether only this machine can reach the address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def check_address(host: str, port: int) -> None:
    """Tries the address out; raises HeadlensError where it is none of this machine's, or taken."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as trial:
            # As servers do on POSIX: without it the port of an app that has just ended would look taken.
            if os.name == "posix":
                trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            trial.bind(address)
    except (OSError, UnicodeError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise HeadlensError(f"--host {host} --port {port}: {reason}; choose another with --port or --host") from error


def start(command: list[str]) -> None:
    """Turns this process into the server, so that signals and the exit code are the server's."""
    sys.stdout.flush()
    sys.stderr.flush()
    if os.name == "posix":
        os.execv(command[0], command)
    raise typer.Exit(subprocess.call(command))
