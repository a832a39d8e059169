"""Peak memory of another process: it is that process's own, and it can be stopped."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headlens.errors import Cancelled, HeadlensError
from headlens.pruning import memory_probe
from headlens.pruning.memory_probe import MemoryAsk, peak_memory, resident_peak
from tests.small_models import save_gpt2


def test_a_model_in_a_process_of_its_own(tmp_path: Path) -> None:
    folder = save_gpt2(tmp_path / "model")
    ballast = np.ones(80_000_000)  # 640 MB here must not be seen there
    found = peak_memory(MemoryAsk(str(folder), "L0", "cpu", None, 2, 8, 2))
    assert ballast.nbytes > 600e6
    assert 50e6 < found.before <= found.peak < found.before + 300e6
    assert found.device_peak is None
    assert resident_peak() > ballast.nbytes


def test_what_goes_wrong_there_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    fake(monkeypatch, "import sys; sys.exit('some trace\\nModelError: no such model')")
    with pytest.raises(HeadlensError, match="could not be measured: ModelError: no such model"):
        peak_memory(MemoryAsk("nowhere", "none", "cpu", None, 1, 4, 1))


def test_it_can_be_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    fake(monkeypatch, "import time; time.sleep(60)")
    start = time.monotonic()

    def stop() -> None:
        raise Cancelled

    with pytest.raises(Cancelled):
        peak_memory(MemoryAsk("m", "none", "cpu", None, 1, 4, 1), stop)
    assert time.monotonic() - start < 20


def fake(monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    """Another program in place of the probe."""
    plain = memory_probe.subprocess.Popen

    def start(command: list[str], **more: Any) -> Any:
        return plain([sys.executable, "-c", program], **more)

    monkeypatch.setattr(memory_probe.subprocess, "Popen", start)
