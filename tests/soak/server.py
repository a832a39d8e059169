"""The app in a process of its own, on loopback, to be loaded and killed."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parents[2]


class Server:
    """One server process.

    Attributes:
        cache: its folder for store, cuts and kept trainings.
        url: its address.
        log: what the process writes.
    """

    def __init__(self, cache: Path, log: Path | None = None, **environment: str) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        self.cache = cache
        self.url = f"http://127.0.0.1:{self.port}"
        self.environment = {
            **os.environ,
            "HEADLENS_CACHE": str(cache),
            "HEADLENS_DATA": str(cache / "data"),
            "PYTHONPATH": str(ROOT),
            "OMP_NUM_THREADS": "1",
            **environment,
        }
        self.log = log or cache / "server.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> Server:
        """Starts it and waits until it answers."""
        command = [sys.executable, "-m", "streamlit", "run", str(ROOT / "app.py"), "--server.port", str(self.port)]
        self.cache.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(command, cwd=ROOT, env=self.environment, stdout=log, stderr=log)
        end = time.monotonic() + 120
        while self._process.poll() is None and time.monotonic() < end:
            try:
                with urllib.request.urlopen(f"{self.url}/_stcore/health", timeout=5):
                    return self
            except OSError:
                time.sleep(0.1)
        raise RuntimeError(f"the app did not start: {self.log.read_text(errors='replace')[-2000:]}")

    def kill(self) -> None:
        """kill -9, its children too."""
        if self._process is not None and self._process.poll() is None:
            for child in psutil.Process(self._process.pid).children(recursive=True):
                child.kill()
            os.kill(self._process.pid, signal.SIGKILL)
            self._process.wait(10)

    @property
    def alive(self) -> bool:
        """Whether the process is there."""
        return self._process is not None and self._process.poll() is None

    def memory(self) -> int:
        """Resident bytes of the process."""
        assert self._process is not None
        return psutil.Process(self._process.pid).memory_info().rss

    def tracebacks(self) -> int:
        """How many tracebacks the process wrote."""
        return self.log.read_text(errors="replace").count("Traceback (most recent call last)")
